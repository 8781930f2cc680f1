"""`fields.include`, `.exclude`, `.rename`, `.cast`: which top-level fields become columns, under which name and type.

They apply in this order. A value that a cast does not fit is a fault of its record, as it would be of the column.
"""

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ingest_plugin.bind.coerce import Mismatch, coercion
from ingest_plugin.bind.typetext import Cast, parse_cast
from ingest_plugin.change import Change
from ingest_plugin.decode import logical
from ingest_plugin.decode.connect_json import SCALARS
from ingest_plugin.decode.jsontext import clock_text, dump, presentable
from ingest_plugin.decode.values import DataError, Group, Row, invalid
from ingest_plugin.topic_settings import TopicSettings
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType, parse_primitive

_Convert: TypeAlias = Callable[[Any], Any]
_FACTORS = {"seconds": 1_000_000, "millis": 1000, "micros": 1}
_BAD_VALUE = (Mismatch, ValueError, TypeError, ArithmeticError, LookupError)


@dataclass(frozen=True, slots=True)
class FieldSteps:
    """The configured steps of one topic."""

    include: frozenset[str]
    exclude: frozenset[str]
    rename: Mapping[str, str]
    cast: Mapping[str, Cast]

    @property
    def idle(self) -> bool:
        """Whether nothing is configured."""
        return not (self.include or self.exclude or self.rename or self.cast)

    def apply(self, group: Group) -> tuple[Group, dict[int, DataError]]:
        """The group with its fields chosen, renamed and cast; and the records that a step does not fit."""
        if self.include or self.exclude:
            group = self._chosen(group)
        errors: dict[int, DataError] = {}
        if self.rename:
            group, errors = self._renamed(group)
        if self.cast:
            group, more = self._cast(group)
            errors.update(more)
        return group, errors

    def _kept(self, name: str) -> bool:
        return name in self.include if self.include else name not in self.exclude

    def _chosen(self, group: Group) -> Group:
        rows = [{name: value for name, value in row.items() if self._kept(name)} for row in group.rows]
        struct = group.struct
        if struct is not None:
            struct = {**struct, "fields": [one for one in struct["fields"] if self._kept(one["name"])]}
        return replace(group, rows=rows, struct=struct)

    def _renamed(self, group: Group) -> tuple[Group, dict[int, DataError]]:
        rename = self.rename
        struct = group.struct
        if struct is not None:
            fields = [{**one, "name": rename.get(one["name"], one["name"])} for one in struct["fields"]]
            struct = {**struct, "fields": fields}
        rows: list[Row] = []
        errors: dict[int, DataError] = {}
        for row, place in zip(group.rows, group.positions, strict=True):
            new = {rename.get(name, name): value for name, value in row.items()}
            if len(new) != len(row):
                errors[place] = invalid("fields.rename: two fields of the record would have one name")
            rows.append(new)
        changes = group.changes
        if changes is not None:
            changes = [_renamed_change(change, rename) for change in changes]
        keys = group.key_columns
        if keys is not None:
            keys = tuple(rename.get(name, name) for name in keys)
        group = replace(group, rows=rows, struct=struct, changes=changes, key_columns=keys)
        return without(group, errors), errors

    def _cast(self, group: Group) -> tuple[Group, dict[int, DataError]]:
        converts: dict[str, _Convert] = {}
        stated: dict[str, JsonType] = {}
        have = {} if group.struct is None else {one["name"]: one["type"] for one in group.struct["fields"]}
        trusted = group.struct is not None and group.trusted
        for name, cast in self.cast.items():
            if trusted and name not in have:
                continue
            stated[name] = cast.type
            convert = _trusted(have[name], cast) if trusted else _inferred(have.get(name), cast)
            if convert is not None:
                converts[name] = convert
        errors: dict[int, DataError] = {}
        for row, place in zip(group.rows, group.positions, strict=True):
            for name, convert in converts.items():
                if (value := row.get(name)) is None:
                    continue
                try:
                    row[name] = convert(value)
                except _BAD_VALUE as error:
                    errors[place] = invalid(f"fields.cast: field '{name}': {error}")
                    break
        struct = _with_types(group.struct, stated)
        keep_trust = group.struct is not None and group.trusted
        return without(replace(group, struct=struct, trusted=keep_trust), errors), errors


def steps_of(settings: TopicSettings) -> FieldSteps:
    """The steps that a topic's settings name."""
    return FieldSteps(
        include=frozenset(settings.include),
        exclude=frozenset(settings.exclude),
        rename=settings.rename,
        cast={name: parse_cast(text, name) for name, text in settings.cast.items()},
    )


def without(group: Group, errors: Mapping[int, DataError]) -> Group:
    """The group without the records that have an error."""
    if not errors:
        return group
    keep = [place for place, position in enumerate(group.positions) if position not in errors]
    return group.at(keep)


def _renamed_change(change: Change, rename: Mapping[str, str]) -> Change:
    if not change.unchanged and change.before is None:
        return change
    before = change.before
    return replace(
        change,
        unchanged=frozenset(rename.get(name, name) for name in change.unchanged),
        before=None if before is None else {rename.get(name, name): v for name, v in before.items()},
    )


def _with_types(struct: JsonObject | None, stated: Mapping[str, JsonType]) -> JsonObject:
    fields = [] if struct is None else struct["fields"]
    known = {one["name"] for one in fields}
    result = [{**one, "type": stated.get(one["name"], one["type"])} for one in fields]
    result.extend(
        {"name": name, "required": False, "type": kind} for name, kind in stated.items() if name not in known
    )
    return {**(struct or {"type": "struct"}), "fields": result}


def _trusted(have: JsonType, cast: Cast) -> _Convert | None:
    """From Arrow's form for one type to Arrow's form for another."""
    if cast.unit:
        return _from_unit(cast)
    if have == cast.type:
        return None
    if cast.type == "string":
        return lambda value: _as_text(value, have)
    if not isinstance(cast.type, str):
        raise_type = cast.type["type"]
        return lambda _value: _refuse(f"a value cannot be cast to {raise_type}")
    if cast.type == "long" and have in ("timestamp", "timestamptz", "time", "date", "int"):
        return lambda value: value
    target = coercion(parse_primitive(cast.type))
    kinds = target.direct

    def convert(value: Any) -> Any:
        shown = presentable(value, have)
        if isinstance(shown, str) and cast.type in ("int", "long", "double", "float"):
            shown = _number(shown)
        if type(shown) in kinds:
            return shown
        return target.convert(shown)

    return convert


def _inferred(have: JsonType | None, cast: Cast) -> _Convert | None:
    """From a JSON value to one that the column takes when it is bound."""
    if cast.unit:
        to_arrow, kind = _from_unit(cast), cast.type
        return lambda value: presentable(to_arrow(value), kind)
    if cast.type == "string" and have != "string":
        return lambda value: value if isinstance(value, str) else str(dump(value))
    if cast.type in ("int", "long", "double", "float"):
        return lambda value: _number(value) if isinstance(value, str) else value
    return None


def _number(text: str) -> int | float:
    """A number written as text, also NaN and the infinities."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is no number")
    found = decimal.Decimal(text)
    return int(found) if found.is_finite() and found == found.to_integral_value() else float(text)


def _as_text(value: Any, have: JsonType) -> str:
    if have == "time" and isinstance(value, int):
        return clock_text(value)
    shown = presentable(value, have)
    return shown if isinstance(shown, str) else str(dump(shown))


def _refuse(reason: str) -> Any:
    raise ValueError(reason)


def _from_unit(cast: Cast) -> _Convert:
    """Numbers or bytes to Arrow's form of the wanted type."""
    if cast.unit == "bytes":
        primitive = parse_primitive(str(cast.type))
        scale = primitive.scale or 0
        unpack = SCALARS["bytes"][1]
        return lambda value: logical.unscaled(value if isinstance(value, bytes) else unpack(value), scale)
    if cast.unit in ("days", "micros"):
        return _whole
    if cast.unit == "nanos":
        return lambda value: _whole(value) // 1000
    factor = _FACTORS[cast.unit]
    return lambda value: _whole(value) * factor


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value
