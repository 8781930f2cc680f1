"""The catalog server: HTTP APIs over services over one database."""
