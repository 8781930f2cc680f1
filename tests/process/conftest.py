"""Fixtures of the process tests."""

from tests.databases import postgres
from tests.kafka.fixtures import broker, kafka

__all__ = ["broker", "kafka", "postgres"]
