"""Bytes to rows. What is wrong with a record is a value (`DataError`), never an exception."""
