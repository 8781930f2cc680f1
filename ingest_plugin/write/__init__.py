"""What has been read but not yet committed: open files of a table, and the dead letters beside it."""
