"""What the shell offers after a Tab: names of buckets, namespaces and tables, asked of the server.

Quickly and silently: a server that does not answer within a second, or not at all, completes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

import requests
import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    Bearer,
    bucket_path,
    namespace_text,
    parse_namespace,
    shown_name,
)
from catalog_server.cli.output import Failed
from table_format.ident import Namespace

_SECONDS: Final = (0.3, 1.0)
_MOST: Final = 1000
_SHOWN: Final = 200


def buckets(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Names of table buckets."""
    return _fitting(_listed(given, "/buckets", ("buckets", lambda one: str(one["name"])), {}), incomplete)


def namespaces(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Namespaces, level by level."""
    parent = _levels_before(incomplete)
    query = {"parent": namespace_text(Namespace(parent))} if parent else {}
    names = ("namespaces", lambda levels: shown_name(list(levels)))
    return _fitting(_listed(given, f"{_bucket(given)}/namespaces", names, query), incomplete)


def tables(given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Tables of the namespace that is typed already; until then namespaces, each with its dot."""
    parent = _levels_before(incomplete)
    inner = [f"{name}." for name in namespaces(given, incomplete)]
    if not parent:
        return inner
    query = {"namespace": namespace_text(Namespace(parent))}
    names = ("tables", lambda one: shown_name(one["namespace"], one["name"]))
    return [*_fitting(_listed(given, f"{_bucket(given)}/tables", names, query), incomplete), *inner]


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return list(islice((name for name in names if name.startswith(incomplete)), _SHOWN))


def _levels_before(incomplete: str) -> tuple[str, ...]:
    """Whole levels of what is typed: those before its last dot."""
    head, dot, _ = incomplete.rpartition(".")
    if not dot:
        return ()
    try:
        return parse_namespace(head).levels
    except typer.BadParameter:
        return ()  # half a name, typed so far


def _bucket(given: Mapping[str, Any]) -> str:
    return bucket_path(str(given.get("bucket") or "default"))


def _listed(
    given: Mapping[str, Any], path: str, names: tuple[str, Callable[[Any], str]], query: Mapping[str, str]
) -> list[str]:
    """Names in an answer: the member that holds the list, and what makes a name of one of them."""
    base = str(given.get("url") or DEFAULT_URL).rstrip("/")
    member, name_of = names
    try:
        answer = requests.get(
            f"{base}/api/v1{path}",
            params={"pageSize": str(_MOST), **query},
            auth=Bearer(),
            timeout=_SECONDS,
        )
        return [name_of(one) for one in answer.json()[member]] if answer.ok else []
    except (Failed, requests.RequestException):
        return []  # no server, or no token for it
    except (AttributeError, LookupError, TypeError, ValueError):
        return []  # another server's answer
