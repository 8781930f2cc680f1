"""`partition.by` expressions: text to transforms, and transforms to an Iceberg partition spec.

`[day(ts), bucket(id, 16), region]`; arguments of bucket and truncate in either order; names are matched to columns
when the spec is made, because columns may be inferred.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingest_plugin.keys import ConfigError, nearest
from table_format.jsontypes import JsonObject
from table_format.schema.types import fields_by_path

FIRST_PARTITION_ID = 1000
_TIME = {"year": "year", "month": "month", "day": "day", "hour": "hour"}
_PLURAL = {f"{name}s": name for name in _TIME}
_WITH_WIDTH = frozenset({"bucket", "truncate"})
_PLAIN = frozenset({*_TIME, "identity", "void"})
_DATES = frozenset({"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_SOURCES: dict[str, frozenset[str]] = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _DATES - {"date"},
    "truncate": frozenset({"int", "long", "string", "binary", "decimal"}),
    "bucket": frozenset({"int", "long", "string", "binary", "decimal", "fixed", "uuid", "time", *_DATES}),
    "identity": frozenset(
        {
            *("boolean", "int", "long", "float", "double", "string", "binary", "decimal", "fixed", "uuid"),
            *("time", *_DATES),
        }
    ),
}
_CALL = re.compile(r"\s*([A-Za-z]+)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTerm:
    """One term of `partition.by`."""

    transform: str
    column: str
    width: int | None = None

    @property
    def iceberg_transform(self) -> str:
        """The transform as the spec writes it."""
        return self.transform if self.width is None else f"{self.transform}[{self.width}]"

    @property
    def field_name(self) -> str:
        """The partition field's name, as Java's builder names it."""
        suffix = {"identity": "", "void": "_null", "bucket": "_bucket", "truncate": "_trunc"}
        return self.column + suffix.get(self.transform, f"_{self.transform}")


def parse(text: str | Sequence[str]) -> tuple[PartitionTerm, ...]:
    """The terms of an expression list; empty text means unpartitioned.

    Raises:
        ConfigError: a term is not understood.
    """
    parts = _split(text) if isinstance(text, str) else [str(part) for part in text]
    terms = tuple(_term(part) for part in parts)
    names = [term.field_name for term in terms]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"partition.by: two terms give the partition field '{name}'")
    return terms


def _split(text: str) -> list[str]:
    inner = text.strip()
    if inner.startswith("[") != inner.endswith("]"):
        raise ConfigError(f"partition.by {text!r}: brackets do not match")
    inner = inner.removeprefix("[").removesuffix("]")
    if not inner.strip():
        return []
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(inner):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
    return [*parts, inner[start:]]


def _term(text: str) -> PartitionTerm:
    call = _CALL.fullmatch(text)
    if call is None:
        return PartitionTerm(transform="identity", column=_column(text, text))
    name = call[1].lower()
    name = _PLURAL.get(name, name)
    arguments = [argument.strip() for argument in call[2].split(",")]
    if name in _WITH_WIDTH:
        return _wide_term(name, arguments, text)
    if name not in _PLAIN:
        known = [*_PLAIN, *_WITH_WIDTH]
        raise ConfigError(f"partition.by: unknown transform in {text.strip()!r}{nearest(name, known)}")
    if len(arguments) != 1:
        raise ConfigError(f"partition.by: {text.strip()!r} takes one argument, the column")
    return PartitionTerm(transform=name, column=_column(arguments[0], text))


def _wide_term(name: str, arguments: list[str], text: str) -> PartitionTerm:
    if len(arguments) != 2:
        raise ConfigError(f"partition.by: {text.strip()!r} takes two arguments, a column and a width")
    widths = [argument for argument in arguments if argument.isascii() and argument.isdigit()]
    columns = [argument for argument in arguments if argument not in widths]
    if len(widths) != 1 or not 0 < int(widths[0]) < 2**31:
        raise ConfigError(f"partition.by: {text.strip()!r} needs a column and one positive whole number")
    return PartitionTerm(transform=name, column=_column(columns[0], text), width=int(widths[0]))


def _column(text: str, term: str) -> str:
    name = text.strip()
    if not name or any(letter in name for letter in "()[],"):
        raise ConfigError(f"partition.by: {term.strip()!r} is neither a column nor transform(column)")
    return name


def spec_of(terms: Sequence[PartitionTerm], schema: JsonObject) -> JsonObject:
    """The partition spec for a table of this schema.

    Raises:
        ConfigError: a column is missing or its type does not take the transform.
    """
    known = fields_by_path(schema)
    fields = []
    for position, term in enumerate(terms):
        view = known.get(term.column)
        if view is None:
            raise ConfigError(
                f"partition.by names column '{term.column}', which the table would not have"
                f"{nearest(term.column, known)}; give the column a type in the topic's schema"
            )
        kind = view.type.split("(")[0].split("[")[0].strip() if isinstance(view.type, str) else "nested"
        if term.transform != "void" and kind not in _SOURCES[term.transform]:
            raise ConfigError(
                f"partition.by: {term.transform}({term.column}) does not work on a {kind} column"
                "; give the column a fitting type in the topic's schema"
            )
        fields.append(
            {
                "source-id": view.id,
                "field-id": FIRST_PARTITION_ID + position,
                "name": term.field_name,
                "transform": term.iceberg_transform,
            }
        )
    return {"spec-id": 0, "fields": fields}
