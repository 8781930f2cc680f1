"""Scans: which files a snapshot holds, and their rows as Arrow batches."""
