"""`frazil namespace`: make namespaces, look at them, set their properties and delete them."""

from typing import Annotated

import typer

from catalog_server.cli.buckets import figure_members
from catalog_server.cli.client import (
    DEFAULT_URL,
    NAMESPACES,
    Bucket,
    Json,
    ManagementClient,
    Url,
    bucket_path,
    namespace_path,
    namespace_text,
    parse_namespace,
    shown_name,
)
from catalog_server.cli.output import confirm, moment, print_json, print_line, print_record, print_table
from catalog_server.cli.pairs import changed, parse_pairs, shown_pairs

namespaces = typer.Typer(no_args_is_help=True, help="Namespaces of a table bucket.")

Name = Annotated[
    str,
    typer.Argument(
        help="Namespace as LEVEL.LEVEL; put a level that holds dots in double quotes.",
        autocompletion=NAMESPACES,
    ),
]


@namespaces.command("create")
def create_namespace(
    namespace: Name,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be repeated.")
    ] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Create a namespace; those above it must be there."""
    body = {"namespace": list(parse_namespace(namespace).levels), "properties": parse_pairs(properties)}
    made = ManagementClient(url).send("POST", f"{bucket_path(bucket)}/namespaces", body=body).document
    if as_json:
        print_json(made)
    else:
        print_line(
            f"namespace {shown_name(made['namespace'])} is there; its tables go below {made['location']}"
        )


@namespaces.command("list")
def list_namespaces(
    parent: Annotated[
        str | None, typer.Argument(help="List below this namespace.", autocompletion=NAMESPACES)
    ] = None,
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


@namespaces.command("show")
def show_namespace(
    namespace: Name, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Show a namespace's properties, and how much is directly in it."""
    found = ManagementClient(url).get(namespace_path(bucket, parse_namespace(namespace)))
    if as_json:
        print_json(found)
        return
    print_record(
        f"Namespace {shown_name(found['namespace'])}",
        [
            ("bucket", found["bucket"]),
            ("location", found["location"]),
            ("properties", shown_pairs(found["properties"])),
            ("created", moment(found["createdAtMs"])),
            ("changed", moment(found["updatedAtMs"])),
            *figure_members(found["figures"]),
        ],
    )


@namespaces.command("set")
def set_namespace(
    *,
    namespace: Name,
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Properties to set.")
    ] = None,
    removed: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="KEY", help="Remove a property; may be repeated."),
    ] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Set or remove properties; others stay."""
    client, path = ManagementClient(url), namespace_path(bucket, parse_namespace(namespace))
    before = client.send("GET", path)
    wanted = {"properties": changed(before.document["properties"], pairs, removed)}
    after = client.send("PUT", f"{path}/properties", body=wanted, if_match=before.etag).document
    if as_json:
        print_json(after)
    else:
        shown = shown_pairs(after["properties"]) or "none"
        print_line(f"properties of namespace {shown_name(after['namespace'])}: {shown}")


@namespaces.command("delete")
def delete_namespace(
    namespace: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Delete an empty namespace."""
    name = parse_namespace(namespace)
    client, path = ManagementClient(url), namespace_path(bucket, name)
    before = client.send("GET", path)
    confirm(f"Delete namespace {namespace} of table bucket {bucket}?", yes=yes)
    client.send("DELETE", path, if_match=before.etag)
    if as_json:
        print_json({"namespace": list(name.levels), "deleted": True})
    else:
        print_line(f"namespace {namespace} is deleted")
