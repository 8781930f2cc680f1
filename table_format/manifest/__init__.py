"""Manifests and manifest lists: entries (`entries`), Avro schemas (`avro`), readers and writers."""
