"""Fixtures of the process tests."""

from tests.kafka.fixtures import broker, kafka

__all__ = ["broker", "kafka"]
