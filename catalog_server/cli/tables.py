"""`frazil bucket | namespace`: look at what the catalog holds."""

from typing import Annotated

import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    Bucket,
    Json,
    ManagementClient,
    Url,
    bucket_path,
    namespace_text,
    parse_namespace,
    shown_name,
)
from catalog_server.cli.output import print_json, print_table

buckets = typer.Typer(no_args_is_help=True, help="Table buckets: each is one Iceberg warehouse.")
namespaces = typer.Typer(no_args_is_help=True, help="Namespaces of a table bucket.")


@buckets.command("list")
def list_buckets(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the table buckets."""
    found = list(ManagementClient(url).pages("/buckets", "buckets"))
    if as_json:
        print_json(found)
    else:
        print_table("Buckets", ["bucket", "location"], [[row["name"], row["location"]] for row in found])


@namespaces.command("list")
def list_namespaces(
    parent: Annotated[str | None, typer.Argument(help="List below this namespace.")] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the namespaces directly below PARENT (the top level when omitted)."""
    query = {"parent": None if parent is None else namespace_text(parse_namespace(parent))}
    client = ManagementClient(url)
    found = list(client.pages(f"{bucket_path(bucket)}/namespaces", "namespaces", query))
    if as_json:
        print_json(found)
    else:
        print_table("Namespaces", ["namespace"], [[shown_name(list(levels))] for levels in found])
