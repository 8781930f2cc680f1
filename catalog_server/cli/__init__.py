"""The `frazil` command. Other packages attach theirs by the entry-point group `frazil.cli`.

Commands are imported by name, and only those that are called for: a command that merely asks a running server must
not wait for the server's own modules.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

import typer

from catalog_server.cli.output import CannotStart, Failed, remark

PLUGIN_GROUP = "frazil.cli"
_PACKAGE = "catalog_server.cli"
# Name, module, attribute: a function is one command, a typer app a group of them.
COMMANDS = (
    ("serve", "serve", "serve"),
    ("worker", "worker", "worker"),
    ("bucket", "tables", "buckets"),
    ("namespace", "tables", "namespaces"),
    ("table", "tables", "tables"),
    ("policy", "policies", "policies"),
    ("maintenance", "maintenance", "maintenance"),
    ("db", "database", "database"),
    ("openapi", "openapi", "openapi"),
    ("api-process", "serve", "api_process"),
)
_HIDDEN = {"api-process"}


def build_app(wanted: str | None = None) -> typer.Typer:
    """All commands, those of plugins included; or only the one wanted, if it is one of ours."""
    app = typer.Typer(
        name="frazil",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Frazil: a self-hosted table-bucket service. `frazil serve` starts an Iceberg REST catalog with "
            "built-in table maintenance; the other commands talk to a running server (--url or FRAZIL_URL)."
        ),
    )
    app.callback()(_program)
    ours = [command for command in COMMANDS if command[0] == wanted]
    for name, module, attribute in ours or COMMANDS:
        command = getattr(import_module(f"{_PACKAGE}.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, hidden=name in _HIDDEN)(command)
    if not ours:
        _add_plugins(app)
    return app


def main() -> None:
    """Run the command line: exit code 0, 1 for a failed operation, 2 for a wrong call or start."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        _check_arguments(sys.argv)
        build_app(wanted)(prog_name="frazil")
    except Failed as error:
        remark(f"frazil: {error}")
        sys.exit(error.exit_code)


def _check_arguments(arguments: Sequence[str]) -> None:
    """Names and paths become URLs, which are UTF-8.

    Raises:
        CannotStart: an argument is not.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise CannotStart(f"argument {argument!r} is not UTF-8") from None


def _program() -> None:
    """Keep a program with a single command a program with commands."""


def _add_plugins(app: typer.Typer) -> None:
    for entry_point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda entry: entry.name):
        try:
            app.add_typer(entry_point.load(), name=entry_point.name)
        except ImportError as error:
            _add_unavailable(app, entry_point.name, str(error))


def _add_unavailable(app: typer.Typer, name: str, reason: str) -> None:
    def unavailable() -> None:
        install = f"pip install 'frazil[{name}]'"
        raise CannotStart(f"`frazil {name}` is not available: {reason}; install it with: {install}")

    context = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, context_settings=context, help=f"Not installed: pip install 'frazil[{name}]'.")(
        unavailable
    )
