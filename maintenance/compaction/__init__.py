"""Compaction: many small data files become fewer, partition by partition, without changing a row."""
