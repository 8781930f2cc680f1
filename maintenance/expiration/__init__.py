"""Snapshot expiration: old snapshots leave the metadata, then the files that only they needed are deleted."""
