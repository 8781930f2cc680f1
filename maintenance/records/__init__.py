"""Record expiration: rows that are old by a date or time column leave the table, whole data files at a time."""
