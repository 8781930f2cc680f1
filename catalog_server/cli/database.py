"""`frazil db`: the server's own database."""

import typer
import uvloop

from catalog_server.bootstrap import build
from catalog_server.cli.client import Json
from catalog_server.cli.output import print_json, print_line
from catalog_server.cli.serve import Config, DataDir, start_errors, start_settings
from catalog_server.settings import Settings
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
