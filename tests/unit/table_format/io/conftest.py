"""Fixtures of the storage tests: a real S3 server beside the local disk and memory."""

from tests.s3 import s3

__all__ = ["s3"]
