"""Fixtures of the process tests."""

from tests.databases import postgres
from tests.kafka.fixtures import broker, kafka
from tests.s3 import s3

__all__ = ["broker", "kafka", "postgres", "s3"]
