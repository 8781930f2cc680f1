"""What commands print: JSON documents with `--json`, tables and short texts for people otherwise.

Answers go to standard output, remarks and errors to standard error.
"""

import sys
from collections.abc import Iterable, Sequence

import orjson
from rich.console import Console
from rich.table import Table

_WIDE = 200  # piped output is not cut at the width of a terminal


class Failed(Exception):
    """The operation failed; the message is for the person at the keyboard."""

    exit_code = 1


class CannotStart(Failed):
    """A server process cannot start as asked."""

    exit_code = 2


def print_json(document: object) -> None:
    """One JSON document."""
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


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
    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(
            row[index].replace(",", "").replace(".", "", 1).isdigit() or not row[index] for row in listed
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*row)
    console().print(table)


def console() -> Console:
    """The console of standard output; names of tables are no markup."""
    width = None if sys.stdout.isatty() else _WIDE
    return Console(width=width, markup=False, emoji=False, highlight=False)


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
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
