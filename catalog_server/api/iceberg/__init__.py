"""The Iceberg REST catalog API below `/iceberg/v1`."""
