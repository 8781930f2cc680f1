"""What the shell offers after a Tab: names of buckets, namespaces and tables, asked of the server.

Quickly and silently: a server that does not answer within a second, or not at all, completes nothing.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import requests

from catalog_server.cli.client import (
    DEFAULT_URL,
    Bearer,
    bucket_path,
    namespace_text,
    parse_namespace,
    shown_name,
)
from table_format.ident import Namespace

_SECONDS: Final = (0.3, 1.0)
_MOST: Final = 1000
_SHOWN: Final = 200


def buckets(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Names of table buckets."""
    return _fitting((str(one["name"]) for one in _listed(given, "/buckets", "buckets", {})), incomplete)


def namespaces(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Namespaces, level by level."""
    parent = _levels_before(incomplete)
    query = {"parent": namespace_text(Namespace(parent))} if parent else {}
    found = _listed(given, f"{_bucket(given)}/namespaces", "namespaces", query)
    return _fitting((shown_name(list(levels)) for levels in found), incomplete)


def tables(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Tables of the namespace that is typed already; until then namespaces, each with its dot."""
    parent = _levels_before(incomplete)
    inner = [f"{name}." for name in namespaces(given, incomplete)]
    if not parent:
        return inner
    query = {"namespace": namespace_text(Namespace(parent))}
    found = _listed(given, f"{_bucket(given)}/tables", "tables", query)
    names = (shown_name(one["namespace"], one["name"]) for one in found)
    return [*_fitting(names, incomplete), *inner]


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return list(islice((name for name in names if name.startswith(incomplete)), _SHOWN))


def _levels_before(incomplete: str) -> tuple[str, ...]:
    """Whole levels of what is typed: those before its last dot."""
    head, dot, _ = incomplete.rpartition(".")
    if not dot:
        return ()
    try:
        return parse_namespace(head).levels
    except Exception:  # noqa: BLE001 - half a name, typed so far: there is nobody to tell
        return ()


def _bucket(given: Mapping[str, Any]) -> str:
    return bucket_path(str(given.get("bucket") or "default"))


def _listed(given: Mapping[str, Any], path: str, member: str, query: Mapping[str, str]) -> list[Any]:
    base = str(given.get("url") or DEFAULT_URL).rstrip("/")
    try:
        answer = requests.get(
            f"{base}/api/v1{path}",
            params={"pageSize": str(_MOST), **query},
            auth=Bearer(),
            timeout=_SECONDS,
        )
        found = answer.json()[member] if answer.ok else []
    except Exception:  # noqa: BLE001 - whatever it is, a Tab must not print it
        return []
    return found if isinstance(found, list) else []
