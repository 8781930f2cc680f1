"""`frazil db`: the server's own database."""

import typer
import uvloop

from catalog_server.bootstrap import build
from catalog_server.cli.client import Json
from catalog_server.cli.output import print_json, print_line
from catalog_server.cli.serve import Config, DataDir, start_errors, start_settings
from catalog_server.settings import Settings

database = typer.Typer(no_args_is_help=True, help="The server's own database.")


@database.callback()
def _group() -> None:
    """The server's own database."""


@database.command("upgrade")
def upgrade(data_dir: DataDir = None, config: Config = None, as_json: Json = False) -> None:
    """Bring the database to this version (`frazil serve` does it as well when it starts)."""
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        uvloop.run(_upgrade(settings))
    path = str(settings.database_location)
    if as_json:
        print_json({"database": path, "state": "up to date"})
    else:
        print_line(f"{path} is up to date")


async def _upgrade(settings: Settings) -> None:
    platform = build(settings)
    await platform.start()
    await platform.close()
