"""`frazil db`, `frazil backup` and `frazil restore`: the server's own database."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from catalog_server.bootstrap import build, serve_lock
from catalog_server.cli.client import Json
from catalog_server.cli.output import Failed, print_json, print_line, remark
from catalog_server.cli.serve import Config, DataDir, start_errors, start_settings
from catalog_server.services import backups
from catalog_server.settings import Settings
from catalog_server.store.look import look
from catalog_server.store.schema import REVISION

database = typer.Typer(no_args_is_help=True, help="The server's own database.")


@database.callback()
def _group() -> None:
    """The server's own database."""


@database.command("upgrade")
def upgrade(data_dir: DataDir = None, config: Config = None, as_json: Json = False) -> None:
    """Bring the database to this version (`frazil serve` does it as well when it starts)."""
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        found = uvloop.run(_upgrade(settings))
    path = str(settings.database_location)
    state = _state(found)
    if as_json:
        print_json({"database": path, "state": state})
    else:
        print_line(f"{path} is {state}")


async def _upgrade(settings: Settings) -> str | None:
    platform = build(settings)
    try:
        return await platform.migrate()
    finally:
        await platform.close()


def _state(found: str | None) -> str:
    if found is None:
        return "made"
    return "up to date" if found == REVISION else f"brought from {found} to {REVISION}"


@database.command("current")
def current(data_dir: DataDir = None, config: Config = None, as_json: Json = False) -> None:
    """Show the database's revision and this program's; changes nothing."""
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        found = uvloop.run(look(settings))
    where = str(settings.database_location)
    if as_json:
        shown = {"database": where, "revision": found.revision, "programRevision": REVISION}
        print_json({**shown, "inUse": found.in_use})
        return
    state = "up to date" if found.revision == REVISION else f"this program is of {REVISION}"
    print_line(f"{where}: {found.revision or 'empty or not there'} ({state})")


@database.command("check")
def check(data_dir: DataDir = None, config: Config = None, as_json: Json = False) -> None:
    """Check that the database is whole and of this program's revision; exit code 1 when it is not.

    Tables' files are checked by `frazil verify`.
    """
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        problems = uvloop.run(backups.problems(settings))
    where = str(settings.database_location)
    if as_json:
        print_json({"database": where, "problems": problems})
    elif not problems:
        print_line(f"{where} is whole")
    if problems:
        raise Failed(f"{where}: {len(problems)} found: {'; '.join(problems[:20])}")


@database.command("copy")
def copy(
    to: Annotated[
        str, typer.Option("--to", metavar="URL", help="The empty database to fill, as database.url.")
    ],
    data_dir: DataDir = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Copy everything to an empty database of either kind, to move there; every server must be stopped.

    The database that is copied stays as it is. Set `database.url` to the new one before the next start.
    """
    with start_errors():
        source = start_settings(config, {"server.data_dir": data_dir})
        target = start_settings(config, {"server.data_dir": data_dir, "database.url": to})
        with serve_lock(source):
            counts = uvloop.run(backups.move(source, target))
    _print(counts, as_json=as_json, what=f"copied to {target.database_location}")
    remark("Set database.url (FRAZIL_DATABASE__URL) to it before the next start of servers and workers.")


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")],
    data_dir: DataDir = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write the database, as it is at one moment, to a file; servers may run meanwhile.

    Tables' files are not part of it. `frazil restore` brings it back.
    """
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        counts = uvloop.run(backups.backup(settings, file))
    _print(counts, as_json=as_json, what=f"written to {file}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `frazil backup` wrote.")],
    data_dir: DataDir = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Fill the database, which must be empty, from a backup of this or an earlier version.

    What was committed after the backup is not in it: see `frazil verify` before maintenance runs again.
    """
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        with serve_lock(settings):
            counts = uvloop.run(backups.restore(settings, file))
    _print(counts, as_json=as_json, what=f"restored to {settings.database_location}")
    remark(
        "Files of commits after the backup are now unreferenced. Run `frazil verify` before `frazil serve` or "
        "`frazil worker` with maintenance: it names tables that have newer metadata than the backup knows."
    )


def _print(counts: Mapping[str, int], *, as_json: bool, what: str) -> None:
    if as_json:
        print_json({"rows": dict(counts)})
        return
    shown = ", ".join(f"{counts[name]:,} {name}" for name in ("buckets", "namespaces", "tables", "views"))
    print_line(f"{sum(counts.values()):,} rows ({shown}) {what}")
