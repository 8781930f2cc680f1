"""The upstream document, where a contract is tested."""

from tests.contract.upstream import as_published, upstream

__all__ = ["as_published", "upstream"]
