"""How a namespace becomes one text key: its levels joined by U+001F, which no level may hold."""

from table_format.ident import Namespace

SEPARATOR = "\x1f"


def key_of(namespace: Namespace) -> str:
    """The key; the root's is empty."""
    return SEPARATOR.join(namespace.levels)


def namespace_of(key: str) -> Namespace:
    """The namespace of a key."""
    return Namespace(tuple(key.split(SEPARATOR)) if key else ())


def lineage(namespace: Namespace) -> list[str]:
    """Keys of the namespace and all above it, the outermost first."""
    return [SEPARATOR.join(namespace.levels[:depth]) for depth in range(1, len(namespace.levels) + 1)]
