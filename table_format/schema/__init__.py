"""Schemas: Iceberg to and from Arrow, and evolution as updates."""
