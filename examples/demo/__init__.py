"""The demo: a Kafka topic becomes a compacted Iceberg table."""
