"""Fixtures of the services' tests: a real S3 server."""

from tests.s3 import s3

__all__ = ["s3"]
