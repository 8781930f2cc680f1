"""What commands print: JSON documents with `--json`, tables and short texts for people otherwise.

Answers go to standard output, remarks, questions and errors to standard error. Every command prints through here, so
that all look alike: `print_table` for many things, `print_record` for one, `print_line` for what was done.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import orjson
from rich.console import Console
from rich.table import Table

_WIDE = 200  # piped output is not cut at the width of a terminal
_LAST_MS = 253_402_300_799_999  # the year 9999 ends


class Failed(Exception):
    """The operation failed; the message is for the person at the keyboard."""

    exit_code = 1


class CannotStart(Failed):
    """A server process cannot start as asked."""

    exit_code = 2


def print_json(document: object) -> None:
    """One JSON document."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONEncodeError:  # a number of more than 64 bits, out of a document that a client wrote
        text = json.dumps(document, indent=2, ensure_ascii=False)
    sys.stdout.write(text + "\n")


def print_line(text: str) -> None:
    """One line of answer, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """One line beside the answer."""
    sys.stderr.write(text + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns of numbers stand to the right."""
    listed = [[_cell(value) for value in row] for row in rows]
    if not listed:
        print_line(f"{title}: none")
        return
    screen = console()
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        min_width=min(len(title), screen.width),  # a title that is longer than the rows stays one line
    )
    for index, column in enumerate(columns):
        numeric = all(
            row[index].replace(",", "").replace(".", "", 1).isdigit() or not row[index] for row in listed
        ) and any(row[index] for row in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*row)
    screen.print(table)


def print_record(title: str, members: Iterable[tuple[str, object]]) -> None:
    """One thing, a line per member; those that are None are left out."""
    rows = [[name, value] for name, value in members if value is not None]
    print_table(title, ["what", "value"], rows)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; `yes` is the option `--yes` that answers beforehand.

    Raises:
        Failed: the answer was no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failed(f"{question} There is no terminal to ask at: say --yes to do it")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failed("nothing was changed")


def console() -> Console:
    """The console of standard output; names of tables are no markup."""
    width = None if sys.stdout.isatty() else _WIDE
    return Console(width=width, markup=False, emoji=False, highlight=False)


def moment(ms: int | None) -> str:
    """A time in milliseconds since 1970, in UTC to the second; empty for none."""
    if ms is None:
        return ""
    return datetime.fromtimestamp(min(max(ms, 0), _LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(ms: float) -> str:
    """A length of time in the unit that reads best."""
    seconds = max(ms, 0) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def size(count: int) -> str:
    """Bytes in the unit that reads best."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
