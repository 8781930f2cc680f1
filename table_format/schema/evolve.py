"""What a table's schema must become so that rows of an observed schema fit, and that schema.

Only changes every reader copes with: add an optional field (at any depth but inside map keys), make a field
optional, widen int to long, float to double and decimal precision. Nothing is dropped, renamed or narrowed. What
cannot be reconciled comes back as a value, never as a guess. `changes(evolved, observed)` is empty.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.schema.types import (
    FieldView,
    JsonType,
    children,
    fields_by_id,
    max_field_id,
    parse_primitive,
    with_fresh_ids,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddField:
    """Append an optional field to the struct `parent_id` (None: the table); ids inside `type` mean nothing yet."""

    path: str
    parent_id: int | None
    name: str
    type: JsonType
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptional:
    """Let the field be null."""

    path: str
    field_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """Widen a primitive type."""

    path: str
    field_id: int
    have: str
    want: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatible:
    """Rows of the observed schema cannot be written to this column, and no legal change helps."""

    path: str
    have: str
    want: str

    def __str__(self) -> str:
        return f"column {self.path!r} is {self.have}, the data has {self.want}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Give the field another name; `changes` never asks for it, for names alone do not tell a rename."""

    path: str
    field_id: int
    name: str


Change: TypeAlias = AddField | MakeOptional | Promote | Rename | Incompatible


def changes(table_schema: JsonObject, observed: JsonObject, *, case_sensitive: bool = True) -> list[Change]:
    """What has to happen to the table before rows of the observed schema fit; empty when they fit already.

    Ids in `observed` are ignored. A column that the rows lack becomes optional. The type `unknown` stands for
    "only nulls so far": it fits anything and adds nothing.

    Raises:
        Invalid: one of the two is not a schema.
    """
    ids = itertools.count(1)
    fresh = with_fresh_ids(observed, lambda: next(ids))
    comparison = _Comparison(case_sensitive=case_sensitive, pinned=_identifier_lineage(table_schema))
    comparison.structs(table_schema, None, fresh)
    return comparison.found


def incompatible(found: Sequence[Change]) -> list[Incompatible]:
    """Those of the changes that cannot be made."""
    return [change for change in found if isinstance(change, Incompatible)]


def evolve(table_schema: JsonObject, wanted: Sequence[Change], last_column_id: int) -> tuple[JsonObject, int]:
    """The schema after the changes, and the table's new last column id.

    The same object comes back when there is nothing to do; otherwise the result carries no `schema-id`, which is
    the catalog's to give. Keys that we do not know are kept.

    Raises:
        Invalid: a change is incompatible, or was computed from another schema than this one.
    """
    if hopeless := incompatible(wanted):
        raise Invalid("; ".join(map(str, hopeless)))
    if not wanted:
        return table_schema, last_column_id
    _check_current(table_schema, wanted)
    ids = itertools.count(max(last_column_id, max_field_id(table_schema)) + 1)
    rebuild = _Rebuild(
        added=_numbered(wanted, lambda: next(ids)),
        optional=frozenset(change.field_id for change in wanted if isinstance(change, MakeOptional)),
        promoted={change.field_id: change.want for change in wanted if isinstance(change, Promote)},
        renamed={change.field_id: change.name for change in wanted if isinstance(change, Rename)},
    )
    evolved = rebuild.complex(table_schema, None)
    evolved.pop("schema-id", None)
    return evolved, next(ids) - 1


def _identifier_lineage(schema: JsonObject) -> frozenset[int]:
    """Identifier fields and every struct around them: the specification wants these required."""
    known = fields_by_id(schema)
    pinned: set[int] = set()
    for identifier in schema.get("identifier-field-ids") or []:
        current: int | None = identifier
        while current is not None and current in known:
            pinned.add(current)
            current = known[current].parent_id
    return frozenset(pinned)


@dataclass(slots=True, kw_only=True)
class _Comparison:
    """One walk down table and observed schema side by side."""

    case_sensitive: bool
    pinned: frozenset[int]
    found: list[Change] = field(default_factory=list)

    def structs(self, have: JsonObject, parent: FieldView | None, seen: JsonType) -> None:
        pairs, extra = self._matched(children(have, parent), children(seen, None), parent)
        for view, counterpart in pairs:
            if counterpart is None:
                self._allow_null(view)
            else:
                self._fields(view, counterpart)
        for newcomer in extra:
            loose = _loosened(newcomer.type)
            if loose is not None:
                self.found.append(
                    AddField(
                        path=_path(parent, newcomer.name),
                        parent_id=None if parent is None else parent.id,
                        name=newcomer.name,
                        type=loose,
                        doc=newcomer.doc,
                    )
                )

    def _matched(
        self, have: Sequence[FieldView], seen: Sequence[FieldView], parent: FieldView | None
    ) -> tuple[list[tuple[FieldView, FieldView | None]], list[FieldView]]:
        """Table fields with their counterpart or None, and what the table lacks; ambiguous ones in neither."""
        exact = {view.name: view for view in have}
        partner: dict[int, FieldView] = {}
        vague: set[int] = set()
        extra: list[FieldView] = []
        for alike in _groups(seen, self._key).values():
            same = [view for view in have if self._key(view.name) == self._key(alike[0].name)]
            target = exact.get(alike[0].name) or (same[0] if len(same) == 1 else None)
            if len(alike) > 1 or (target is None and same):
                # Choosing one of several would put values under a name that their sender did not mean.
                vague.update(view.id for view in same)
                options = " and ".join(repr(view.name) for view in (alike if len(alike) > 1 else same))
                path = _path(parent, alike[0].name)
                self.found.append(Incompatible(path=path, have="one column", want=f"ambiguous: {options}"))
            elif target is None:
                extra.append(alike[0])
            else:
                partner[target.id] = alike[0]
        return [(view, partner.get(view.id)) for view in have if view.id not in vague], extra

    def _key(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def _fields(self, view: FieldView, seen: FieldView) -> None:
        if not seen.required or seen.type == "unknown":
            self._allow_null(view)
        self._types(view, seen.type)

    def _allow_null(self, view: FieldView) -> None:
        if not view.required:
            return
        if view.id in self.pinned:
            self.found.append(
                Incompatible(path=view.path, have="required (identifier)", want="optional or missing")
            )
        else:
            self.found.append(MakeOptional(path=view.path, field_id=view.id))

    def _types(self, view: FieldView, seen: JsonType) -> None:
        if seen == "unknown":
            return
        have_kind, seen_kind = _kind(view.type), _kind(seen)
        if have_kind == seen_kind == "primitive":
            self._primitives(view, str(view.type), str(seen))
        elif have_kind != seen_kind or isinstance(view.type, str):
            self.found.append(Incompatible(path=view.path, have=_text(view.type), want=_text(seen)))
        elif have_kind == "struct":
            self.structs(view.type, view, seen)
        elif have_kind == "list":
            self._fields(children(view.type, view)[0], children(seen, None)[0])
        else:
            self._maps(view, children(view.type, view), children(seen, None))

    def _maps(self, view: FieldView, have: Sequence[FieldView], seen: Sequence[FieldView]) -> None:
        keys = _Comparison(case_sensitive=self.case_sensitive, pinned=frozenset())
        keys._types(have[0], seen[0].type)
        if keys.found:
            # Changing a key's type changes which keys are equal, so the specification forbids it.
            want = _text(seen[0].type)
            self.found.append(Incompatible(path=have[0].path, have=_text(have[0].type), want=want))
        self._fields(have[1], seen[1])

    def _primitives(self, view: FieldView, have_text: str, seen_text: str) -> None:
        have, seen = str(parse_primitive(have_text)), str(parse_primitive(seen_text))
        if have == seen or _widens(seen, have):
            return
        if _widens(have, seen):
            self.found.append(Promote(path=view.path, field_id=view.id, have=have, want=seen))
        else:
            self.found.append(Incompatible(path=view.path, have=have, want=seen))


def _groups(seen: Sequence[FieldView], key: Callable[[str], str]) -> dict[str, list[FieldView]]:
    groups: dict[str, list[FieldView]] = {}
    for view in seen:
        groups.setdefault(key(view.name), []).append(view)
    return groups


def _widens(narrow_text: str, wide_text: str) -> bool:
    """Whether the specification lets a column of the narrow type become the wide one."""
    narrow, wide = parse_primitive(narrow_text), parse_primitive(wide_text)
    if narrow.name == wide.name == "decimal":
        return narrow.scale == wide.scale and (narrow.precision or 0) < (wide.precision or 0)
    return (narrow.name, wide.name) in {("int", "long"), ("float", "double")} or narrow.name == "unknown"


def _path(parent: FieldView | None, name: str) -> str:
    return name if parent is None else f"{parent.path}.{name}"


def _kind(json_type: JsonType) -> str:
    return "primitive" if isinstance(json_type, str) else str(json_type.get("type"))


def _text(json_type: JsonType) -> str:
    return str(parse_primitive(json_type)) if isinstance(json_type, str) else _kind(json_type)


def _loosened(json_type: JsonType) -> JsonType | None:
    """The type of a new column: all optional inside, without what is unknown; None when nothing remains."""
    if isinstance(json_type, str):
        parsed = parse_primitive(json_type)
        return None if parsed.name == "unknown" else str(parsed)
    match json_type["type"]:
        case "struct":
            fields = [
                {**member, "type": inner, "required": False}
                for member in json_type["fields"]
                if (inner := _loosened(member["type"])) is not None
            ]
            return {**json_type, "fields": fields} if fields else None
        case "list":
            element = _loosened(json_type["element"])
            return None if element is None else {**json_type, "element": element, "element-required": False}
        case _:
            value = _loosened(json_type["value"])
            if value is None or _loosened(json_type["key"]) is None:
                return None
            return {**json_type, "value": value, "value-required": False}


def _check_current(schema: JsonObject, wanted: Sequence[Change]) -> None:
    known = fields_by_id(schema)
    names = {(view.parent_id, view.name) for view in known.values()}
    for change in wanted:
        stale = True
        match change:
            case AddField(parent_id=parent):
                parent_type = schema if parent is None else known[parent].type if parent in known else "none"
                stale = _kind(parent_type) != "struct" or (parent, change.name) in names
                names.add((parent, change.name))
            case Promote(field_id=field_id):
                stale = field_id not in known or _text(known[field_id].type) != change.have
            case MakeOptional(field_id=field_id) | Rename(field_id=field_id):
                stale = field_id not in known
        if stale:
            raise Invalid(f"the change of column {change.path!r} does not fit this schema; compute it again")


def _numbered(wanted: Sequence[Change], next_id: Callable[[], int]) -> dict[int | None, list[JsonObject]]:
    added: dict[int | None, list[JsonObject]] = {}
    for change in wanted:
        if isinstance(change, AddField):
            member: JsonObject = {"id": next_id(), "name": change.name, "required": False}
            member["type"] = with_fresh_ids(change.type, next_id)
            if change.doc:
                member["doc"] = change.doc
            added.setdefault(change.parent_id, []).append(member)
    return added


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebuild:
    """The changed copy of a schema document; shares nothing mutable that it alters with the original."""

    added: Mapping[int | None, list[JsonObject]]
    optional: frozenset[int]
    promoted: Mapping[int, str]
    renamed: Mapping[int, str]

    def complex(self, json_type: JsonObject, own_id: int | None) -> JsonObject:
        match json_type["type"]:
            case "struct":
                kept = [
                    {**member, "type": self._type(member["type"], member["id"])}
                    | ({"required": False} if member["id"] in self.optional else {})
                    | ({"name": self.renamed[member["id"]]} if member["id"] in self.renamed else {})
                    for member in json_type["fields"]
                ]
                return {**json_type, "fields": kept + list(self.added.get(own_id, []))}
            case "list":
                return self._inner(json_type, "element")
            case _:
                return self._inner(self._inner(json_type, "key"), "value")

    def _inner(self, json_type: JsonObject, slot: str) -> JsonObject:
        inner_id = json_type[f"{slot}-id"]
        rebuilt = {**json_type, slot: self._type(json_type[slot], inner_id)}
        return rebuilt | ({f"{slot}-required": False} if inner_id in self.optional else {})

    def _type(self, json_type: JsonType, own_id: int) -> JsonType:
        if isinstance(json_type, str):
            return self.promoted.get(own_id, json_type)
        return self.complex(json_type, own_id)
