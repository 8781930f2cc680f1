"""Purge: the files of a table that was dropped for good."""
