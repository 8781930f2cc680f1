"""Which column a field of a schema is, when not by its name: Protobuf's field numbers and Avro's aliases.

A field keeps its column when its schema renames it. Which number a column has, and which names it had, is kept in the
table property `ingest.fields`, so that schemas and workers in any order come to the same columns: a column has the
name that the schema with the highest registry id gives it, and rows of other schemas are put under that name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson

from ingest_plugin.decode.formats import ALIASES, NUMBER
from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

PROPERTY = "ingest.fields"
_HINTS = (NUMBER, ALIASES)


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of one column."""

    numbers: tuple[str, ...] = ()
    """Protobuf's field numbers of the column: one for each message that has it."""
    named_by: int = 0
    """Registry id of the schema that gave the column its name."""
    names: tuple[str, ...] = ()
    """Names that it had before."""


Memory: TypeAlias = Mapping[int, Known]
"""By field id."""


@dataclass(frozen=True, slots=True)
class Labels:
    """New names for the fields of rows, and for those inside them; only what differs."""

    names: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, "Labels"] = field(default_factory=dict)
    """By the name that the field has in the row; for the elements of a list and the values of a map as well."""

    def __bool__(self) -> bool:
        return bool(self.names or self.inside)

    def row(self, row: Row) -> Row:
        """The row under the new names."""
        return {self.names.get(name, name): self._value(name, value) for name, value in row.items()}

    def _value(self, name: str, value: Any) -> Any:
        inner = self.inside.get(name)
        return value if inner is None or value is None else inner.anything(value)

    def anything(self, value: Any) -> Any:
        """A struct, or the structs in a list or a map."""
        if isinstance(value, dict):
            if "" in self.inside:
                return {
                    key: None if one is None else self.inside[""].anything(one) for key, one in value.items()
                }
            return self.row(value)
        if "" in self.inside and isinstance(value, list):
            inner = self.inside[""]
            return [
                (one[0], None if one[1] is None else inner.anything(one[1]))
                if isinstance(one, tuple)
                else None
                if one is None
                else inner.anything(one)
                for one in value
            ]
        return value


@dataclass(frozen=True, slots=True)
class Identified:
    """An observed struct under the table's names, without hints."""

    struct: JsonObject
    labels: Labels
    renames: Mapping[int, str]
    """New names of columns, by field id."""
    conflicts: Sequence[str]
    """Why a field can be no column."""


def identify(
    schema: JsonObject, memory: Memory, observed: JsonObject, schema_id: int, pinned: frozenset[str]
) -> Identified:
    """Match the fields of an observed struct with the table's columns.

    Columns in `pinned` (lower case) are never renamed: settings speak of them by name.
    """
    matching = _Matching(memory, schema_id, pinned)
    struct, labels = matching.struct(schema, observed, top=True)
    return Identified(struct, labels, matching.renames, matching.conflicts)


def has_hints(kind: JsonType) -> bool:
    """Whether a field at any depth says more than its name."""
    if isinstance(kind, str):
        return False
    if kind["type"] == "struct":
        return any(any(hint in one for hint in _HINTS) or has_hints(one["type"]) for one in kind["fields"])
    return any(has_hints(kind[slot]) for slot in ("element", "value") if slot in kind)


def plain(kind: JsonType) -> JsonType:
    """The type without hints at any depth."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = [
            {key: plain(value) if key == "type" else value for key, value in one.items() if key not in _HINTS}
            for one in kind["fields"]
        ]
        return {**kind, "fields": fields}
    return {key: plain(value) if key in ("element", "value") else value for key, value in kind.items()}


def read_memory(properties: Mapping[str, str]) -> Memory:
    """What the table's property says; nothing where it is not ours."""
    try:
        document = orjson.loads(properties.get(PROPERTY) or "{}")
        return {
            int(number): Known(
                tuple(map(str, one.get("n", ()))), int(one.get("by", 0)), tuple(map(str, one.get("was", ())))
            )
            for number, one in document.items()
        }
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return {}


def write_memory(memory: Memory) -> str:
    """The property's text."""
    document: dict[str, Any] = {}
    for number, one in sorted(memory.items()):
        entry: dict[str, Any] = {"n": list(one.numbers)} if one.numbers else {}
        entry |= {"by": one.named_by} if one.named_by else {}
        entry |= {"was": list(one.names)} if one.names else {}
        if entry:
            document[str(number)] = entry
    return orjson.dumps(document).decode()


def remembered(
    before: JsonObject, after: JsonObject, memory: Memory, observed: JsonObject, schema_id: int
) -> Memory:
    """The memory after a schema change from `before` to `after` that an observed struct with hints asked for."""
    result = dict(memory)
    old_names = {one["id"]: one["name"] for one in _all_fields(before)}
    for one in _all_fields(after):
        was = old_names.get(one["id"])
        known = result.get(one["id"], Known())
        if was is not None and was != one["name"]:
            names = tuple(name for name in (*known.names, was) if name != one["name"])
            result[one["id"]] = replace(known, named_by=schema_id, names=names)
    _note(after, observed, result, schema_id)
    return result


def _note(table: Any, observed: Any, memory: dict[int, Known], schema_id: int) -> None:
    """Numbers and aliases of the fields: after a change every one has its column."""
    if isinstance(table, str) or isinstance(observed, str) or table["type"] != observed["type"]:
        return
    if table["type"] != "struct":
        slot = "element" if table["type"] == "list" else "value"
        _note(table[slot], observed[slot], memory, schema_id)
        return
    by_name = {one["name"]: one for one in table["fields"]}
    folded = {name.lower() for name in by_name}
    by_number = {number: one for one in table["fields"] for number in memory.get(one["id"], Known()).numbers}
    for one in observed["fields"]:
        column = by_number.get(one.get(NUMBER, "")) or by_name.get(one["name"])
        if column is None:
            continue
        known = memory.get(column["id"], Known())
        if NUMBER in one and one[NUMBER] not in known.numbers:
            numbers = (*known.numbers, one[NUMBER])
            memory[column["id"]] = replace(known, numbers=numbers, named_by=max(known.named_by, schema_id))
        elif NUMBER in one and column["name"] == one["name"] and schema_id > known.named_by:
            memory[column["id"]] = replace(known, named_by=schema_id)
        # Rows of a schema that does not know the new name yet may come later.
        told = [
            name for name in one.get(ALIASES, ()) if name.lower() not in folded and name not in known.names
        ]
        if told:
            memory[column["id"]] = replace(memory.get(column["id"], Known()), names=(*known.names, *told))
        _note(column["type"], one["type"], memory, schema_id)


def _all_fields(kind: JsonType) -> Iterator[JsonObject]:
    if isinstance(kind, str):
        return
    for one in kind.get("fields", ()):
        yield one
        yield from _all_fields(one["type"])
    for slot in ("element", "key", "value"):
        if slot in kind:
            yield from _all_fields(kind[slot])


@dataclass(slots=True)
class _Matching:
    """One walk down table and observed struct side by side."""

    memory: Memory
    schema_id: int
    pinned: frozenset[str]
    renames: dict[int, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def struct(self, table: JsonObject, seen: JsonObject, *, top: bool) -> tuple[JsonObject, Labels]:
        partners = self._partners(table["fields"], seen["fields"])
        names: dict[str, str] = {}
        inside: dict[str, Labels] = {}
        fields = []
        taken = {one["name"] for one in table["fields"]}
        for one in seen["fields"]:
            column = partners.get(one["name"])
            name = one["name"] if column is None else self._name(column, one, taken, top=top)
            kind, labels = self._type(None if column is None else column["type"], one["type"])
            if name != one["name"]:
                names[one["name"]] = name
            if labels:
                inside[one["name"]] = labels
            kept = {key: value for key, value in one.items() if key not in _HINTS}
            fields.append({**kept, "name": name, "type": kind})
        return {**seen, "fields": fields}, Labels(names, inside)

    def _partners(self, columns: Sequence[JsonObject], seen: Sequence[JsonObject]) -> dict[str, JsonObject]:
        """Columns of the observed fields, by the fields' names: by number, by name, by a former name, by alias."""
        found: dict[str, JsonObject] = {}
        free = {one["id"]: one for one in columns}
        known = [(one, self.memory.get(one["id"], Known())) for one in columns]
        by_number = {number: one for one, of in known for number in of.numbers}
        by_name = {one["name"].lower(): one for one in columns} | {one["name"]: one for one in columns}
        former = {name: one for one, of in known for name in of.names}

        def named(one: JsonObject) -> Iterator[JsonObject | None]:
            column = by_name.get(one["name"]) or by_name.get(one["name"].lower())
            if column is not None and column["id"] in free:
                yield self._unnumbered(column, one)

        ways: Sequence[Callable[[JsonObject], Iterable[JsonObject | None]]] = (
            lambda one: [by_number.get(one[NUMBER])] if NUMBER in one else (),
            named,
            lambda one: () if NUMBER in one else [former.get(one["name"])],
            lambda one: [by_name.get(alias) or former.get(alias) for alias in one.get(ALIASES, ())],
        )
        for way in ways:
            for one in seen:
                if one["name"] in found:
                    continue
                column = next((each for each in way(one) if each is not None and each["id"] in free), None)
                if column is not None:
                    found[one["name"]] = free.pop(column["id"])
        return found

    def _unnumbered(self, column: JsonObject, one: JsonObject) -> JsonObject | None:
        """The column of that name, unless it is known to be another field's."""
        if NUMBER not in one:
            return column
        message = one[NUMBER].rpartition("#")[0]
        known = self.memory.get(column["id"], Known()).numbers
        others = [
            number for number in known if number.rpartition("#")[0] == message and number != one[NUMBER]
        ]
        if not others:
            return column
        self.conflicts.append(
            f"column '{column['name']}' is field {others[0]}, the data's '{one['name']}' is {one[NUMBER]}"
        )
        return None

    def _name(self, column: JsonObject, one: JsonObject, taken: set[str], *, top: bool) -> str:
        """The column's name after this schema has been seen."""
        have, want = str(column["name"]), str(one["name"])
        known = self.memory.get(column["id"], Known())
        if have.lower() == want.lower():
            return have  # names that differ by case are one
        # An alias says which of the two names is the older; of numbers' names the schemas' order tells.
        newer = self.schema_id > known.named_by if NUMBER in one else want not in known.names
        is_free = want.lower() not in {name.lower() for name in taken}
        if not newer or not is_free or (top and have.lower() in self.pinned):
            return have
        self.renames[int(column["id"])] = want
        taken.discard(have)
        taken.add(want)
        return want

    def _type(self, table: Any, seen: Any) -> tuple[Any, Labels]:
        if isinstance(seen, str):
            return seen, Labels()
        if table is None or isinstance(table, str) or table["type"] != seen["type"]:
            return plain(seen), Labels()
        if seen["type"] == "struct":
            return self.struct(table, seen, top=False)
        slot = "element" if seen["type"] == "list" else "value"
        kind, labels = self._type(table[slot], seen[slot])
        return {**seen, slot: kind}, Labels(inside={"": labels}) if labels else Labels()
