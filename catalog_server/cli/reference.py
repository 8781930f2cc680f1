"""The page of all commands, written from the commands themselves. `python -m catalog_server.cli.reference docs/cli.md`.

Not here: what is true of every command; that stands at the head of the page and is text.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
import typer.main

from catalog_server.cli import build_app

_HEAD: Final = """# The command line

`frazil bucket`, `namespace`, `table`, `policy` and `maintenance` ask a running server, at `--url` or `FRAZIL_URL`.
`serve`, `worker`, `backup`, `restore`, `verify` and `db` work on the database and the object store themselves, with the
server's [settings](settings.md); `ingest` asks the catalog and the brokers that its [configuration](ingest.md) names.

This page is written by `make openapi` from the commands themselves.

- Tables are named `NAMESPACE.NAME`, namespaces `LEVEL.LEVEL`; a part that holds dots stands in double quotes.
- `--json` prints the server's answer as JSON instead of a table; with `--watch` a line per change.
- Answers go to standard output, remarks and errors to standard error. Piped output is not cut at a terminal's width.
- Exit codes: 0 done, 1 the operation failed (the server refused, a job failed or was cancelled), 2 a wrong call or
  start, 130 interrupted. Errors are one line that says what to do.
- What destroys something asks first; `--yes` answers beforehand, and without a terminal it is needed.
- `frazil --install-completion` sets up completion for your shell (`--show-completion` prints it): commands, options,
  and the names of buckets, namespaces and tables, asked of the server within a second or not at all.
- `FRAZIL_TOKEN` is sent to the server as a bearer token, for a proxy before it that asks for one.
- `frazil --version` prints the version.
"""


def page() -> str:
    """The page as Markdown."""
    program = typer.main.get_command(build_app())
    return _HEAD + "".join(_sections(program, "frazil"))


def _sections(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        line = f"{path} {name}"
        if hasattr(command, "commands"):
            yield f"\n## `{line}`\n\n{_prose(command.help)}\n"
            yield from _sections(command, line)
        else:
            level = "##" if path == "frazil" else "###"
            yield f"\n{level} `{line}`\n\n{_prose(command.help)}\n{_parameters(command)}"


def _parameters(command: Any) -> str:
    rows = [
        f"| {_names(one)} | {_default(one)} | {_prose(getattr(one, 'help', None))} |\n"
        for one in command.params
        if not getattr(one, "hidden", False)
    ]
    return "\n| argument or option | default | |\n|---|---|---|\n" + "".join(rows) if rows else ""


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{(parameter.metavar or parameter.name).upper()}`"
        return name if parameter.required else f"{name} (optional)"
    variable = f", `{parameter.envvar}`" if isinstance(parameter.envvar, str) else ""
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}`" for name in names) + variable


def _default(parameter: Any) -> str:
    if parameter.default in (None, False, ()) or parameter.required:
        return ""
    if parameter.default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{parameter.default}`"


def _prose(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
