"""`frazil bucket`: make or register table buckets, look at them, change, protect and delete them."""

from typing import Annotated

import typer

from catalog_server.cli import resource_settings
from catalog_server.cli.client import BUCKETS, DEFAULT_URL, Json, ManagementClient, Url, bucket_path
from catalog_server.cli.output import confirm, moment, print_json, print_line, print_record, print_table, size
from catalog_server.cli.pairs import changed, parse_pairs, shown_pairs
from table_format.jsontypes import JsonObject

buckets = typer.Typer(no_args_is_help=True, help="Table buckets: each is one Iceberg warehouse.")

NewName = Annotated[str, typer.Argument(help="3 to 63 lower-case letters, digits and dashes.")]
Name = Annotated[str, typer.Argument(help="Name of the table bucket.", autocompletion=BUCKETS)]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be repeated.")
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="KEY=VALUE",
        help="A setting of its object store that is no secret, such as s3.endpoint; may be repeated.",
    ),
]
Credentials = Annotated[
    str | None, typer.Option("--credentials", help="NAME of the server's setting storage.credentials.NAME.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="A tag; may be repeated.")]
Protected = Annotated[bool, typer.Option("--protected", help="Let it refuse to be deleted.")]


@buckets.command("create")
def create_bucket(  # noqa: PLR0913 - each is one option of the command
    *,
    name: NewName,
    properties: Properties = None,
    storage: Storage = None,
    credentials: Credentials = None,
    tags: Tags = None,
    protected: Protected = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Create a table bucket at a place of its own, below the server's storage.buckets_location."""
    body = _settings(properties, storage, credentials, protected=protected)
    _make({**body, "name": name, "tags": parse_pairs(tags)}, url, as_json=as_json)


@buckets.command("register")
def register_bucket(  # noqa: PLR0913 - each is one option of the command
    *,
    name: NewName,
    location: Annotated[str, typer.Argument(help="For example s3://lake/warehouse or file:///data/lake.")],
    properties: Properties = None,
    storage: Storage = None,
    credentials: Credentials = None,
    tags: Tags = None,
    protected: Protected = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a location a table bucket, once the server has seen that it can write, read, list and delete there."""
    body = _settings(properties, storage, credentials, protected=protected)
    _make({**body, "name": name, "location": location, "tags": parse_pairs(tags)}, url, as_json=as_json)


@buckets.command("list")
def list_buckets(
    prefix: Annotated[str, typer.Option("--prefix", help="Only buckets whose name begins so.")] = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the table buckets with their figures, as they were measured last."""
    query = {"prefix": prefix, "figures": "true"}
    found = list(ManagementClient(url).pages("/buckets", "buckets", query))
    if as_json:
        print_json(found)
        return
    rows = []
    for row in found:
        figures = row["figures"]
        unsure = figures["tables"] != figures["currentTables"]
        about = "about " if unsure else ""
        rows.append(
            [
                row["name"],
                figures["tables"],
                figures["views"],
                figures["dataFiles"],
                f"{about}{size(figures['bytes'])}",
                row["protected"],
                row["location"],
            ]
        )
    print_table("Buckets", ["bucket", "tables", "views", "files", "size", "protected", "location"], rows)


@buckets.command("show")
def show_bucket(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show where a bucket lies, its settings and tags, what else is kept for it, and how much is in it."""
    client, path = ManagementClient(url), bucket_path(name)
    bucket = client.get(path)
    kept = resource_settings.kept(
        resource_settings.Resource(client=client, path=path, shown=f"bucket {name}", as_json=as_json)
    )
    if as_json:
        print_json({**bucket, **kept})
        return
    figures = bucket["figures"]
    print_record(
        f"Bucket {bucket['name']}",
        [
            ("location", bucket["location"]),
            ("ARN", bucket["arn"]),
            ("storage", shown_pairs(bucket["storage"])),
            ("credentials", bucket["credentials"]),
            ("properties", shown_pairs(bucket["properties"])),
            *resource_settings.kept_members(kept),
            ("protected", bucket["protected"]),
            ("created", moment(bucket["createdAtMs"])),
            ("changed", moment(bucket["updatedAtMs"])),
            *figure_members(figures),
        ],
    )


@buckets.command("update")
def update_bucket(  # noqa: PLR0913 - each is one option of the command
    *,
    name: Name,
    properties: Properties = None,
    without_properties: Annotated[
        list[str] | None, typer.Option("--remove-property", metavar="KEY", help="Remove a property.")
    ] = None,
    storage: Storage = None,
    without_storage: Annotated[
        list[str] | None,
        typer.Option("--remove-storage", metavar="KEY", help="Remove a setting of the object store."),
    ] = None,
    credentials: Credentials = None,
    without_credentials: Annotated[
        bool, typer.Option("--no-credentials", help="Use the server's own credentials.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Change properties or storage settings; other storage settings are tried out before they count."""
    if credentials is not None and without_credentials:
        raise typer.BadParameter("give --credentials or --no-credentials, not both")

    def change(settings: JsonObject) -> None:
        settings["properties"] = changed(settings["properties"], properties, without_properties)
        settings["storage"] = changed(settings["storage"], storage, without_storage)
        if credentials is not None or without_credentials:
            settings["credentials"] = credentials

    client = ManagementClient(url)
    path = bucket_path(name)
    before = client.send("GET", path)
    settings = {key: before.document[key] for key in ("properties", "storage", "credentials", "protected")}
    change(settings)
    bucket = client.send("PUT", path, body=settings, if_match=before.etag).document
    if as_json:
        print_json(bucket)
    else:
        print_line(f"bucket {name} is at version {bucket['version']}")


@buckets.command("protect")
def protect_bucket(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Let a bucket refuse to be deleted."""
    _protect(name, url, protected=True, as_json=as_json)


@buckets.command("unprotect")
def unprotect_bucket(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Let a bucket be deleted again."""
    _protect(name, url, protected=False, as_json=as_json)


@buckets.command("delete")
def delete_bucket(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Delete an empty bucket that is not protected. No file is touched."""
    client = ManagementClient(url)
    before = client.send("GET", bucket_path(name))
    confirm(f"Delete table bucket {name} at {before.document['location']}?", yes=yes)
    client.send("DELETE", bucket_path(name), if_match=before.etag)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        print_line(f"bucket {name} is deleted; nothing was deleted at {before.document['location']}")


def figure_members(figures: JsonObject) -> list[tuple[str, object]]:
    """Lines of the figures of a bucket or namespace."""
    stale, unknown = figures["staleTables"], figures["unknownTables"]
    freshness = [
        f"{stale:,} tables as they were before" if stale else "",
        f"{unknown:,} not counted" if unknown else "",
    ]
    return [
        ("namespaces", figures["namespaces"]),
        ("tables", figures["tables"]),
        ("views", figures["views"]),
        ("snapshots", figures["snapshots"]),
        ("data files", figures["dataFiles"]),
        ("delete files", figures["deleteFiles"]),
        ("records", figures["records"]),
        ("data size", size(figures["bytes"])),
        ("figures", "; ".join(text for text in freshness if text) or "current"),
    ]


def _settings(
    properties: list[str] | None, storage: list[str] | None, credentials: str | None, *, protected: bool
) -> JsonObject:
    return {
        "properties": parse_pairs(properties),
        "storage": parse_pairs(storage),
        "credentials": credentials,
        "protected": protected,
    }


def _make(body: JsonObject, url: str, *, as_json: bool) -> None:
    bucket = ManagementClient(url).send("POST", "/buckets", body=body).document
    if as_json:
        print_json(bucket)
    else:
        print_line(f"bucket {bucket['name']} is at {bucket['location']}")


def _protect(name: str, url: str, *, protected: bool, as_json: bool) -> None:
    client, path = ManagementClient(url), bucket_path(name)
    before = client.send("GET", path)
    settings = {key: before.document[key] for key in ("properties", "storage", "credentials")}
    body = {**settings, "protected": protected}
    bucket = client.send("PUT", path, body=body, if_match=before.etag).document
    if as_json:
        print_json(bucket)
    else:
        print_line(f"bucket {name} {'refuses to be deleted' if protected else 'can be deleted'}")
