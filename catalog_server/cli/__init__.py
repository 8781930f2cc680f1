"""The `frazil` command. Other packages attach theirs by the entry-point group `frazil.cli`."""

import sys
from importlib.metadata import entry_points

import typer

from catalog_server.cli import database, maintenance, openapi, policies, serve, tables, worker
from catalog_server.cli.output import Failed, remark
from catalog_server.settings import StartError

PLUGIN_GROUP = "frazil.cli"
_FAILED, _USAGE = 1, 2


def build_app() -> typer.Typer:
    """All commands, those of plugins included."""
    app = typer.Typer(
        name="frazil",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Frazil: a self-hosted table-bucket service. `frazil serve` starts an Iceberg REST catalog with "
            "built-in table maintenance; the other commands talk to a running server (--url or FRAZIL_URL)."
        ),
    )
    app.command("serve")(serve.serve)
    app.command("worker")(worker.worker)
    app.command("api-process", hidden=True)(serve.api_process)
    app.add_typer(tables.buckets, name="bucket")
    app.add_typer(tables.namespaces, name="namespace")
    app.add_typer(tables.tables, name="table")
    app.add_typer(policies.policies, name="policy")
    app.add_typer(maintenance.maintenance, name="maintenance")
    app.add_typer(database.database, name="db")
    app.add_typer(openapi.openapi, name="openapi")
    for entry_point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda entry: entry.name):
        try:
            app.add_typer(entry_point.load(), name=entry_point.name)
        except ImportError as error:
            _add_unavailable(app, entry_point.name, str(error))
    return app


def main() -> None:
    """Run the command line: exit code 0, 1 for a failed operation, 2 for a wrong call or start."""
    try:
        build_app()()
    except StartError as error:
        _end(_USAGE, str(error))
    except Failed as error:
        _end(_FAILED, str(error))


def _end(code: int, message: str) -> None:
    remark(f"frazil: {message}")
    sys.exit(code)


def _add_unavailable(app: typer.Typer, name: str, reason: str) -> None:
    def unavailable() -> None:
        raise StartError(
            f"`frazil {name}` is not available: {reason}; install it with: pip install 'frazil[{name}]'"
        )

    context = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, context_settings=context, help=f"Not installed: pip install 'frazil[{name}]'.")(
        unavailable
    )
