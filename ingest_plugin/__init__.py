"""Kafka topics as Iceberg tables: consume, decode, bind, write, commit with the offsets in the snapshot.

Reaches the catalog over HTTP only. The table's own offsets are the truth; Kafka's group offsets are for lag tools.
"""
