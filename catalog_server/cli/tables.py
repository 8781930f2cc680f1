"""`frazil bucket | namespace | table`: look at what the catalog holds."""

from typing import Annotated

import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    TABLE_HELP,
    Bucket,
    Json,
    ManagementClient,
    Url,
    bucket_path,
    namespace_text,
    parse_namespace,
    parse_table,
    shown_name,
    table_path,
)
from catalog_server.cli.output import print_json, print_table, size
from table_format.jsontypes import JsonObject

buckets = typer.Typer(no_args_is_help=True, help="Table buckets: each is one Iceberg warehouse.")
namespaces = typer.Typer(no_args_is_help=True, help="Namespaces of a table bucket.")
tables = typer.Typer(no_args_is_help=True, help="Tables: what there is, and how it is laid out.")


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


@tables.command("list")
def list_tables(
    namespace: Annotated[str | None, typer.Argument(help="Only this namespace.")] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the tables of a namespace, or of the whole bucket."""
    query = {"namespace": None if namespace is None else namespace_text(parse_namespace(namespace))}
    found = list(ManagementClient(url).pages(f"{bucket_path(bucket)}/tables", "tables", query))
    if as_json:
        print_json(found)
        return
    rows = [[shown_name(row["namespace"], row["name"]), row["version"], row["location"]] for row in found]
    print_table("Tables", ["table", "commits", "location"], rows)


@tables.command("show")
def show_table(
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show where a table lies, and its files by size: whether it needs compaction."""
    details = ManagementClient(url).get(table_path(bucket, parse_table(table)))
    if as_json:
        print_json(details)
        return
    _print_details(details)


def _print_details(details: JsonObject) -> None:
    table, figures = details["table"], details["figures"]
    print_table(
        shown_name(table["namespace"], table["name"]),
        ["what", "value"],
        [
            ["bucket", table["bucket"]],
            ["uuid", table["uuid"]],
            ["location", table["location"]],
            ["metadata", table["metadataLocation"]],
            ["metadata size", size(figures["metadataBytes"])],
            ["format version", details["formatVersion"]],
            ["snapshots", figures["snapshots"]],
            ["manifests", figures["manifests"]],
            ["data files", figures["dataFiles"]],
            ["delete files", figures["deleteFiles"]],
            ["records", figures["records"]],
            ["data size", size(figures["bytes"])],
        ],
    )
    classes = [
        [_below(row["belowBytes"]), row["files"], size(row["bytes"])]
        for row in figures["fileSizes"]
        if row["files"]
    ]
    print_table("Data files by size", ["size", "files", "bytes"], classes)


def _below(bound: int | None) -> str:
    return "larger" if bound is None else f"below {size(bound)}"
