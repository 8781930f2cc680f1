"""Rows to Arrow columns of the table's schema, strictly: a value fits its column or the record is refused."""
