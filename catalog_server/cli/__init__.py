"""The `frazil` command. Other packages attach theirs by the entry-point group `frazil.cli`.

Commands are imported by name, and only those that are called for: a command that merely asks a running server must
not wait for the server's own modules.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated

import typer
import typer.main

from catalog_server.cli.output import CannotStart, Failed, print_line, remark

PLUGIN_GROUP = "frazil.cli"
_PACKAGE = "catalog_server.cli"
# Name, module, attribute: a function is one command, a typer app a group of them.
COMMANDS = (
    ("serve", "serve", "serve"),
    ("worker", "worker", "worker"),
    ("bucket", "bucket_settings", "buckets"),
    ("namespace", "namespaces", "namespaces"),
    ("table", "table_create", "tables"),
    ("policy", "policies", "policies"),
    ("maintenance", "maintenance", "maintenance"),
    ("db", "database", "database"),
    ("backup", "database", "backup"),
    ("restore", "database", "restore"),
    ("verify", "verify", "verify"),
    ("openapi", "openapi", "openapi"),
    ("api-process", "serve", "api_process"),
)
_HIDDEN = {"api-process"}
_INTERRUPTED = 130
_COMPLETE = "_FRAZIL_COMPLETE"


def build_app(wanted: str | None = None) -> typer.Typer:
    """All commands, those of plugins included; or only the one wanted, if it is one of ours."""
    app = _empty_app()
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


def build_names() -> typer.Typer:
    """All commands by name only: enough to complete one of them, in a fraction of the time."""

    def nothing() -> None:  # without a docstring, which zsh and fish would show as the command's help
        return

    app = _empty_app()
    names = [name for name, _, _ in COMMANDS if name not in _HIDDEN]
    for name in sorted({*names, *(entry.name for entry in entry_points(group=PLUGIN_GROUP))}):
        app.command(name)(nothing)
    return app


def _empty_app() -> typer.Typer:
    app = typer.Typer(
        name="frazil",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Frazil: a self-hosted table-bucket service. `frazil serve` starts an Iceberg REST catalog with "
            "built-in table maintenance; `bucket`, `namespace`, `table`, `policy` and `maintenance` talk to a "
            "running server (--url or FRAZIL_URL; FRAZIL_TOKEN is sent along)."
        ),
    )
    app.callback()(_program)
    return app


def main() -> None:
    """Run the command line: exit code 0, 1 for a failed operation, 2 for a wrong call or start."""
    try:
        _check_arguments(sys.argv)
        code = typer.main.get_command(_app_for(sys.argv, os.environ)).main(
            prog_name="frazil", standalone_mode=False
        )
    except Failed as error:
        remark(f"frazil: {error}")
        sys.exit(error.exit_code)
    except typer.TyperException as error:
        _explain(error)
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        remark("frazil: interrupted")
        sys.exit(_INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: typer.TyperException) -> None:
    """A wrong call in one line, as a wrong start; a group that was called without a command has shown its help."""
    told = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = "frazil" if context is None else context.command_path
    if told:
        remark(f"frazil: {told}; see `{path} --help`")


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"frazil {version('frazil')}")
        raise typer.Exit


def _app_for(arguments: Sequence[str], environ: Mapping[str, str]) -> typer.Typer:
    if _COMPLETE not in environ:
        return build_app(arguments[1] if len(arguments) > 1 else None)
    wanted = command_to_complete(environ)
    return build_names() if wanted is None else build_app(wanted)


def command_to_complete(environ: Mapping[str, str]) -> str | None:
    """The command within which the shell asks what could come next; None when it does not, or asks for commands."""
    if _COMPLETE not in environ:
        return None
    typed = environ.get("COMP_WORDS") or environ.get("_TYPER_COMPLETE_ARGS", "")
    words = typed.split()
    at_third = int(environ.get("COMP_CWORD", "0")) > 1 or len(words) > 2 or typed[-1:].isspace()
    return words[1] if len(words) > 1 and at_third else None


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


def _program(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
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
