"""The database: tables, migrations at start, and functions on a connection that return frozen rows."""
