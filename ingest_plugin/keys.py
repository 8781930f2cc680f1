"""Names of topic settings: which are offered, which are known elsewhere but not offered, what a typo meant.

Keys are AutoMQ's without their prefix; with the prefix they are the same keys. A key that is not understood is an
error, never ignored: a setting that silently does nothing loses data.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

PREFIX = "automq.table.topic."

OFFERED = frozenset(
    {
        "commit.interval.ms",
        "namespace",
        "table",
        "table.dot.replacement",
        "table.shared",
        "convert.value.type",
        "partition.by",
        "errors.tolerance",
        "errors.deadletter.topic",
        "schema",
        "write.target.file.size.bytes",
        "metadata.columns",
        "upsert.enable",
        "id.columns",
        "cdc.field",
        "write.upsert.memory.bytes",
        "on.topic.recreated",
        "on.retention.gap",
        "header.column",
        "convert.key.type",
        "convert.value.by_latest_schema.subject",
        "convert.key.by_latest_schema.subject",
        "convert.value.by_latest_schema.message.full.name",
        "convert.key.by_latest_schema.message.full.name",
        "convert.value.subject.name.strategy",
        "convert.key.subject.name.strategy",
        "convert.value.schema.id",
        "convert.key.schema.id",
        "transform.value.type",
        "fields.include",
        "fields.exclude",
        "fields.rename",
        "fields.cast",
        "cdc.truncate",
    }
)

# Valid AutoMQ keys that are not offered: the values that describe what happens anyway, and what to say otherwise.
_ELSEWHERE: Mapping[str, tuple[frozenset[str], str]] = {
    "enable": (frozenset({"true"}), "leave the topic out of the file to turn it off"),
    "schema.type": (frozenset(), "it is deprecated; write convert.value.type"),
    "expire.snapshot.enabled": (frozenset(), "set the policy icebergSnapshotManagement of the catalog"),
    "expire.snapshot.older.than.hours": (
        frozenset(),
        "set the policy icebergSnapshotManagement of the catalog",
    ),
    "expire.snapshot.retain.last": (frozenset(), "set the policy icebergSnapshotManagement of the catalog"),
}


class ConfigError(Exception):
    """The configuration is wrong; the message is one line that says what, where and what to write."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the nearest known name, or nothing when none is near."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def check_known(section: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown keys of a section.

    Raises:
        ConfigError: a key is unknown; the nearest known one is named.
    """
    known = set(known)
    for name in given:
        if name not in known:
            raise ConfigError(f"[{section}]: unknown key '{name}'{nearest(name, known)}")


def _meant(name: str) -> str:
    if any(name.endswith(f".{known}") for known in OFFERED):
        return '; a topic\'s name with dots is written in quotes: [topics."a.b"]'
    return nearest(name, OFFERED | _ELSEWHERE.keys())


def topic_keys(section: str, given: Mapping[str, object]) -> dict[str, object]:
    """The offered keys of a topic section without prefix; keys that change nothing are dropped.

    Raises:
        ConfigError: a key is unknown, not offered, or given both with and without the prefix.
    """
    result: dict[str, object] = {}
    for written, value in given.items():
        name = written.removeprefix(PREFIX)
        if name in result:
            raise ConfigError(f"[{section}]: '{name}' is given twice, with and without '{PREFIX}'")
        if name in _ELSEWHERE:
            harmless, advice = _ELSEWHERE[name]
            if str(value).strip().lower() not in harmless:
                raise ConfigError(f"[{section}]: '{written}' = {value!r} is not offered: {advice}")
        elif name in OFFERED:
            result[name] = value
        else:
            raise ConfigError(f"[{section}]: unknown key '{written}'{_meant(name)}")
    return result
