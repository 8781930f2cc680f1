"""The type of JSON values, seen together with what the table already says.

Whole numbers are long, with a fraction among them double; text stays text. What only was null or empty is
`unknown` until a value shows. Where values disagree the first one decides, and the others are refused when bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ingest_plugin.bind.columns import MAX_COLUMNS, MAX_DEPTH, MAX_FIELDS, columns_of, resolve
from ingest_plugin.decode.values import Row
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

UNKNOWN = "unknown"
_INT_RANGE = (-(2**31), 2**31 - 1)
_SCALARS: Mapping[type, str] = {bool: "boolean", int: "long", float: "double", str: "string"}


def observe_rows(
    columns: Mapping[str, Sequence[Any]], known: JsonObject | None, *, grow: bool, depth: int = 0
) -> JsonObject:
    """The struct (without ids) of these columns: the known fields as they are or wider, then the new ones.

    Without `grow` nothing is added to `known` and nothing widened.
    """
    fields: dict[str, JsonObject] = {field["name"]: field for field in (known or {}).get("fields", ())}
    columns = _by_meaning(columns, fields)
    meant = resolve(columns, fields)
    types: dict[str, JsonType] = {}
    for name, values in columns.items():
        target = meant[name]
        if target is not None:
            types[target] = _observe(values, fields[target]["type"], grow, depth)
    result = [
        {
            "name": name,
            "required": field.get("required", False),
            "type": types.get(name, field["type"]),
        }
        for name, field in fields.items()
    ]
    # Some engines end a name at a zero byte.
    new = [name for name in columns if meant[name] is None and name and "\0" not in name]
    room = MAX_COLUMNS - len(result) if grow and depth < MAX_DEPTH else 0
    result.extend(
        {"name": name, "required": False, "type": _observe(columns[name], None, grow, depth)}
        for name in new[: max(room, 0)]
    )
    return {"type": "struct", "fields": result}


def _by_meaning(
    columns: Mapping[str, Sequence[Any]], known: Mapping[str, Any]
) -> Mapping[str, Sequence[Any]]:
    """The columns with those put together that mean the same one: names that differ only by case."""
    groups: dict[str, list[str]] = {}
    for name, target in resolve(columns, known).items():
        groups.setdefault(name.lower() if target is None else f"={target}", []).append(name)
    if len(groups) == len(columns):
        return columns
    return {names[0]: list(chain(*(columns[name] for name in names))) for names in groups.values()}


def stated_over(stated: JsonObject, known: JsonObject) -> JsonObject:
    """The fields that a schema states, then those that only the table has; the same inside structs.

    What is stated counts, even where the table says otherwise: whether the two fit is decided elsewhere.
    """
    table = {field["name"].lower(): field for field in known["fields"]}
    fields = []
    for field in stated["fields"]:
        counterpart = table.pop(field["name"].lower(), None)
        kind = field["type"]
        if counterpart is not None and _is_struct(kind) and _is_struct(counterpart["type"]):
            kind = stated_over(kind, counterpart["type"])
        fields.append({**field, "type": kind})
    return {**stated, "fields": [*fields, *table.values()]}


def _is_struct(kind: JsonType) -> bool:
    return not isinstance(kind, str) and kind["type"] == "struct"


def without_clashes(struct: JsonObject, known: JsonObject) -> JsonObject:
    """The observed struct without new fields whose dotted path another column has: `a.b` beside a `b` inside `a`.

    Catalogs find columns by such paths and refuse a schema that has one twice. Nor is the table let grow without end.
    """
    result: JsonObject = _unclashing(struct, known, "", set(_paths(known, "")))
    return result


def _unclashing(seen: Any, known: Any, prefix: str, taken: set[str]) -> Any:
    if isinstance(seen, str) or isinstance(known, str):
        return seen
    if seen["type"] != "struct":
        part = "element" if seen["type"] == "list" else "value"
        return {**seen, part: _unclashing(seen[part], known[part], f"{prefix}{part}.", taken)}
    before = {field["name"]: field["type"] for field in known["fields"]}
    fields = []
    for field in seen["fields"]:
        path = prefix + field["name"]
        if field["name"] in before:
            fields.append(
                {**field, "type": _unclashing(field["type"], before[field["name"]], f"{path}.", taken)}
            )
        elif (kind := _claimed(field["type"], path, taken)) is not None:
            fields.append({**field, "type": kind})
    return {**seen, "fields": fields}


def _claimed(kind: JsonType, path: str, taken: set[str]) -> JsonType | None:
    """The type of a new field, its paths taken; None when its own path, or that of its elements, was taken before."""
    if path in taken or len(taken) >= MAX_FIELDS:
        return None
    taken.add(path)
    if isinstance(kind, str):
        return kind
    if kind["type"] == "list":
        element = _claimed(kind["element"], f"{path}.element", taken)
        return None if element is None else {**kind, "element": element}
    fields = [
        {**field, "type": inner}
        for field in kind["fields"]
        if (inner := _claimed(field["type"], f"{path}.{field['name']}", taken)) is not None
    ]
    return {**kind, "fields": fields}


def _paths(kind: JsonType, prefix: str) -> Iterator[str]:
    if isinstance(kind, str):
        return
    members = [(field["name"], field["type"]) for field in kind.get("fields", ())]
    members.extend((part, kind[part]) for part in ("element", "key", "value") if part in kind)
    for name, inner in members:
        yield prefix + name
        yield from _paths(inner, f"{prefix}{name}.")


def _observe(values: Sequence[Any], known: JsonType | None, grow: bool, depth: int) -> JsonType:
    if isinstance(known, str):
        return _wider(values, known) if grow else known
    if known is not None:
        return _observe_known(values, known, grow, depth)
    kinds = set(map(type, values))
    kinds.discard(type(None))
    kind = next(iter(kinds)) if len(kinds) == 1 else _first_kind(values)
    if {int, float} <= kinds and kind in (int, float):
        return "double"
    if kind is dict:
        return _struct(values, None, grow, depth)
    if kind is list:
        inner = [item for value in values if type(value) is list for item in value]
        return _list(UNKNOWN if depth >= MAX_DEPTH else _observe(inner, None, grow, depth + 1))
    return UNKNOWN if kind is None else _SCALARS.get(kind, UNKNOWN)


def _first_kind(values: Sequence[Any]) -> type | None:
    return next((type(value) for value in values if value is not None), None)


def _observe_known(values: Sequence[Any], known: JsonObject, grow: bool, depth: int) -> JsonType:
    match known["type"]:
        case "struct":
            return _struct(values, known, grow, depth)
        case "list":
            inner = [item for value in values if type(value) is list for item in value]
            return {**known, "element": _observe(inner, known["element"], grow, depth + 1)}
        case _:
            held = list(chain.from_iterable(value.values() for value in values if type(value) is dict))
            return {**known, "value": _observe(held, known["value"], grow, depth + 1)}


def _struct(values: Sequence[Any], known: JsonObject | None, grow: bool, depth: int) -> JsonType:
    rows: list[Row] = [value for value in values if type(value) is dict]
    return observe_rows(columns_of(rows), known, grow=grow, depth=depth + 1)


def _list(element: JsonType) -> JsonObject:
    return {"type": "list", "element": element, "element-required": False}


def _wider(values: Sequence[Any], known: str) -> str:
    """`int` becomes `long` when a number needs it: the only widening that JSON numbers can ask of a column."""
    if known != "int":
        return known
    low, high = _INT_RANGE
    numbers = [value for value in values if type(value) is int]
    return known if all(low <= number <= high for number in numbers) else "long"
