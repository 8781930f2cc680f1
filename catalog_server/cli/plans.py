"""A maintenance plan in words: its totals, and the first of the groups and files that it names.

Knows the plans that there are by their members; what it does not know is told too, under its own name.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

import orjson

from catalog_server.cli.output import moment, print_line, print_record, print_table, size
from table_format.jsontypes import JsonObject

SHOWN: Final = 10
"""Entries of a list, unless all are wanted."""

_Row = Sequence[object]

_LISTS: Final[Mapping[str, tuple[str, Sequence[str], Callable[..., _Row]]]] = {
    "paths": ("Files to delete", ["file"], lambda path: [path]),
    "rewrite": (
        "Files to write anew without their old rows",
        ["file", "size", "rows", "old, probably"],
        lambda file: [
            file["path"],
            size(file["bytes"]),
            file["records"],
            "not known" if file["old-share"] is None else f"{file['old-share']:.0%}",
        ],
    ),
    "delete": ("Files to delete", ["file", "size"], lambda path, count: [path, size(count)]),
    "mark": (
        "Files to mark as unreferenced",
        ["file", "size", "first seen"],
        lambda path, count, seen_ms: [path, size(count), moment(seen_ms)],
    ),
    "forget": ("Marks to take back: referenced again, or gone", ["file"], lambda path: [path]),
    "snapshot-ids": ("Snapshots to expire", ["snapshot"], lambda number: [str(number)]),
    "parts": (
        "Manifests to rewrite together",
        ["spec", "content", "manifests", "size", "why"],
        lambda part: [
            str(part["spec-id"]),
            part["content"],
            part["manifests"],
            size(part["bytes"]),
            part["why"],
        ],
    ),
    "refs": ("Branches and tags to remove", ["ref"], lambda name: [name]),
    "columns": (
        "Columns whose distinct values are counted",
        ["column", "type", "how"],
        lambda name, kind, how: [name, kind, how],
    ),
    "not-computed": ("Not computed", ["why"], lambda why: [why]),
    "deletes": (
        "Position deletes to store anew, without their data files",
        ["partition", "delete files", "size", "rows", "why"],
        lambda plan: [
            _partition(plan["partition"]),
            len(plan["inputs"]),
            size(sum(file[1] for file in plan["inputs"])),
            sum(file[2] for file in plan["inputs"]),
            _why_deletes(plan),
        ],
    ),
}
_RECORDS: Final = ("column", "records")
"""Members that only a plan of record expiration has; its paths are of files that leave the table."""
_NAMES: Final = {
    "snapshot-id": "read at snapshot",
    "sequence-number": "sequence number kept",
    "remaining-groups": "groups left for the next run",
    "remaining": "left for the next run",
    "manifests": "manifests of the table",
    "target-bytes": "size of a new manifest",
    "data-files": "data files of the table",
    "kept": "snapshots kept",
    "older-than-ms": "older than",
    "files-to-rewrite": "files with old rows beside others",
    "left-alone": "left alone",
    "too-young": "files too young to tell",
    "waiting": "files marked and waiting",
    "listed": "files listed",
    "continued-from": "continues the counts of snapshot",
    "partition-statistics": "partition statistics",
}


_NUMBERS: Final = ("snapshot-id", "sequence-number", "continued-from")
"""Numbers that name something."""


def print_plan(plan: JsonObject, *, every: bool) -> None:
    """Print a plan; of long lists the first entries and how many there are, or all of them."""
    if "nothing" in plan:
        return  # why is said beside it, and so is what was left alone
    groups = plan.get("groups")
    lists = {name: value for name, value in plan.items() if isinstance(value, list) and name != "groups"}
    single = {name: value for name, value in plan.items() if not isinstance(value, list)}
    print_record("Plan", [(_NAMES.get(name, name), _single(name, value)) for name, value in single.items()])
    if isinstance(groups, list):
        _print_groups(groups, every=every)
    for name, entries in lists.items():
        _print_list(name, entries, of_records=all(member in plan for member in _RECORDS), every=every)


def _print_groups(groups: Sequence[JsonObject], *, every: bool) -> None:
    shown = groups if every else groups[:SHOWN]
    rows = []
    for number, group in enumerate(shown, 1):
        inputs = group["inputs"]
        deletes = sum(file[4] for file in inputs)
        rows.append(
            [
                number,
                _partition(group["partition"]),
                len(inputs),
                size(sum(file[1] for file in inputs)),
                sum(file[2] for file in inputs),
                deletes,
                group["strategy"],
                _why(group),
                _how(group),
            ]
        )
    columns = ["group", "partition", "files", "size", "rows", "deletes", "strategy", "why", "how"]
    print_table(_title("Groups of files to rewrite", len(groups)), columns, rows)
    _print_rest("groups", len(groups), len(shown))
    files = ((number, *file) for number, group in enumerate(groups, 1) for file in group["inputs"])
    listed = list(files if every else islice(files, SHOWN))
    total = sum(len(group["inputs"]) for group in groups)
    print_table(
        _title("Files to rewrite", total),
        ["group", "file", "size", "rows", "deletes"],
        [[number, path, size(count), rows_, deletes] for number, path, count, rows_, _, deletes in listed],
    )
    _print_rest("files", total, len(listed))


def _why(group: JsonObject) -> str:
    """Why the files of a group are rewritten."""
    small = f"small, each below {size(group['below-bytes'])}"
    match group["reason"]:
        case "leaves-tier":
            return f"{small}: together they fill a file"
        case "remainder":
            return f"{small}: twice the largest together"
        case "unsorted":
            return "not in the table's sort order"
        case "deletes":
            return f"deletes: up to {max(file[4] for file in group['inputs'])} delete files reach one"
        case other:
            return str(other)


def _how(group: JsonObject) -> str:
    because = group.get("rewritten-because")
    return "row groups copied" if because is None else f"decoded: {because}"


def _why_deletes(plan: JsonObject) -> str:
    vectors = len(plan["data-files"])
    return f"superseded by {vectors} deletion vectors" if vectors else "small: many are merged into one"


def _print_list(name: str, entries: Sequence[object], *, of_records: bool, every: bool) -> None:
    if not entries:
        return
    title, columns, row = _LISTS.get(name, (name, ["value"], lambda *values: [_text(values)]))
    if name == "paths" and of_records:
        title = "Files that leave the table"
    shown = entries if every else entries[:SHOWN]
    rows = [row(*entry) if isinstance(entry, list) else row(entry) for entry in shown]
    print_table(_title(title, len(entries)), columns, rows)
    _print_rest("entries", len(entries), len(shown))


def _print_rest(what: str, count: int, shown: int) -> None:
    if count > shown:
        print_line(f"and {count - shown:,} more {what}: --all prints them, --json the whole plan")


def _title(text: str, count: int) -> str:
    return f"{text} ({count:,})"


def _single(name: str, value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{number} {reason}" for reason, number in sorted(value.items())) or None
    if isinstance(value, int) and name.endswith("-ms"):
        return moment(value)
    if isinstance(value, int) and name.endswith("bytes"):
        return size(value)
    return str(value) if name in _NUMBERS and value is not None else value


def _partition(values: Sequence[object]) -> str:
    """A partition's values, those encoded that JSON has no words for."""
    return ", ".join(_value(value) for value in values) or "-"


def _value(value: object) -> str:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        return str(float.fromhex(text)) if kind == "float" and isinstance(text, str) else str(text)
    return "null" if value is None else str(value)


def _text(values: tuple[object, ...]) -> str:
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return orjson.dumps(values[0] if len(values) == 1 else values).decode()
