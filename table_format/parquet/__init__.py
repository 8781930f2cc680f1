"""Parquet files as bytes: their footers read, checked and written, with the data between them left as it is."""
