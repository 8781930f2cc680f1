"""The HTTP doors: Iceberg REST API, management API, probes. Shapes and status codes; rules live in services."""
