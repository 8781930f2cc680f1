"""`frazil table drop | undrop | dropped | purge | forget | protect | rename | register | …`: what changes a table.

What cannot be taken back asks first, and refuses where there is no terminal to ask at.
"""

from typing import Annotated

import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    NAMESPACES,
    TABLE_HELP,
    Bucket,
    Json,
    ManagementClient,
    Url,
    bucket_path,
    namespace_path,
    namespace_text,
    parse_namespace,
    parse_table,
    segment,
    shown_name,
    table_path,
)
from catalog_server.cli.output import Failed, confirm, moment, print_json, print_line, print_table
from catalog_server.cli.table_layout import OfTable, tables
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

__all__ = ["tables"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OfDropped = Annotated[str, typer.Argument(help="The name that the dropped table had, as NAMESPACE.NAME.")]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Which one, where several of that name were dropped; see `dropped`."),
]


@tables.command("drop")
def drop(
    table: OfTable,
    purge: Annotated[bool, typer.Option("--purge", help="Have its files deleted, by a job.")] = False,
    yes: Yes = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Drop a table. Without --purge it can be restored for some time, and its files stay in any case."""
    ident = parse_table(table)
    what = "Drop the table {} and delete its files?" if purge else "Drop the table {}?"
    confirm(what.format(_shown(ident)), yes=yes)
    query = {"purge": "true"} if purge else None
    answer = ManagementClient(url).send("DELETE", table_path(bucket, ident), query=query).document
    if as_json:
        print_json(answer)
        return
    gone = answer["droppedTable"]
    if gone is None:
        print_line(f"{_shown(ident)} is dropped; its files stay, and nothing is kept to restore it by")
    elif purge:
        print_line(f"{_shown(ident)} is dropped; job {gone['purgeJob']} deletes its files")
    else:
        print_line(
            f"{_shown(ident)} is dropped; `frazil table undrop {_shown(ident)}` restores it until "
            f"{moment(gone['recoverableUntilMs'])}"
        )


@tables.command("dropped")
def dropped(
    namespace: Annotated[
        str | None, typer.Argument(help="Only this namespace.", autocompletion=NAMESPACES)
    ] = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List dropped tables that can be restored or are being purged, the last dropped first."""
    query = {"namespace": None if namespace is None else namespace_text(parse_namespace(namespace))}
    path = f"{bucket_path(bucket)}/dropped-tables"
    found = list(ManagementClient(url).pages(path, "droppedTables", query))
    if as_json:
        print_json(found)
        return
    rows = [
        [shown_name(row["namespace"], row["name"]), row["id"], moment(row["droppedAtMs"]), _future(row)]
        for row in found
    ]
    print_table("Dropped tables", ["table", "id", "dropped", "what becomes of it"], rows)


@tables.command("undrop")
def undrop(
    table: OfDropped,
    under: Annotated[
        str | None, typer.Option("--as", help="Restore it under this name: NAMESPACE.NAME.")
    ] = None,
    dropped_id: Id = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Restore a dropped table with its policies and tags."""
    client = ManagementClient(url)
    body: JsonObject = {}
    if under is not None:
        wanted = parse_table(under)
        body = {"namespace": list(wanted.namespace.levels), "name": wanted.name}
    path = _one_dropped(client, bucket, parse_table(table), dropped_id)
    answer = client.send("POST", f"{path}/undrop", body=body).document
    if as_json:
        print_json(answer)
    else:
        print_line(f"{shown_name(answer['namespace'], answer['name'])} is restored")


@tables.command("purge")
def purge_dropped(
    table: OfDropped,
    dropped_id: Id = None,
    yes: Yes = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Have the files of a dropped table deleted by a job (`drop --purge` does both at once)."""
    client = ManagementClient(url)
    path = _one_dropped(client, bucket, parse_table(table), dropped_id)
    confirm(f"Delete the files of the dropped table {_shown(parse_table(table))}?", yes=yes)
    answer = client.send("POST", f"{path}/purge").document
    if as_json:
        print_json(answer)
    else:
        print_line(f"job {answer['purgeJob']} deletes the files of {_shown(parse_table(table))}")


@tables.command("forget")
def forget(
    table: OfDropped,
    dropped_id: Id = None,
    yes: Yes = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
) -> None:
    """Forget a dropped table before its time is over; its files stay."""
    client = ManagementClient(url)
    path = _one_dropped(client, bucket, parse_table(table), dropped_id)
    confirm(f"Forget the dropped table {_shown(parse_table(table))}? Its files stay.", yes=yes)
    client.send("DELETE", path)
    print_line(f"{_shown(parse_table(table))} is forgotten; its files stay")


@tables.command("protect")
def protect(
    table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Let a table refuse to be dropped, purged, unregistered and overwritten."""
    _set_protection(table, bucket, url, protected=True, as_json=as_json)


@tables.command("unprotect")
def unprotect(
    table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Let a table be dropped again."""
    _set_protection(table, bucket, url, protected=False, as_json=as_json)


@tables.command("rename")
def rename(
    table: OfTable,
    to: Annotated[str, typer.Argument(help="The new name, as NAMESPACE.NAME.")],
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Give a table another name, maybe in another namespace; its files stay where they are."""
    wanted = parse_table(to)
    body = {"namespace": list(wanted.namespace.levels), "name": wanted.name}
    path = f"{table_path(bucket, parse_table(table))}/rename"
    answer = ManagementClient(url).send("POST", path, body=body).document
    if as_json:
        print_json(answer)
    else:
        print_line(f"{_shown(parse_table(table))} is {_shown(wanted)} now")


@tables.command("register")
def register(
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    metadata_location: Annotated[str, typer.Argument(help="The table's metadata file, inside the bucket.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also when there is such a table: it is pointed there.")
    ] = False,
    yes: Yes = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a table of metadata that exists already.

    With --overwrite a table that is there is pointed at it, as long as it is as it was when you were asked.
    """
    ident = parse_table(table)
    client = ManagementClient(url)
    body: JsonObject = {"name": ident.name, "metadataLocation": metadata_location}
    before = _metadata_location(client, bucket, ident) if overwrite else None
    if before is not None:
        confirm(f"Point {_shown(ident)}, whose metadata is {before}, at {metadata_location}?", yes=yes)
        body |= {"overwrite": True, "expectedMetadataLocation": before}
    answer = client.send("POST", f"{namespace_path(bucket, ident.namespace)}/tables", body=body).document
    if as_json:
        print_json(answer)
    elif before is None:
        print_line(f"{_shown(ident)} is registered")
    else:
        print_line(f"{_shown(ident)} is at {metadata_location} now; before, its metadata was {before}")


@tables.command("unregister")
def unregister(
    table: OfTable,
    yes: Yes = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Take a table out of the catalog and keep every file; `register` takes it in again."""
    ident = parse_table(table)
    confirm(f"Take {_shown(ident)} out of the catalog? Its files stay.", yes=yes)
    answer = ManagementClient(url).send("POST", f"{table_path(bucket, ident)}/unregister").document
    if as_json:
        print_json(answer)
    else:
        print_line(f"{_shown(ident)} is out of the catalog; its metadata is {answer['metadataLocation']}")


def _metadata_location(client: ManagementClient, bucket: str, ident: TableIdent) -> str | None:
    """Where the table's metadata is, also of one whose files are gone; None when there is no table, or a blank one."""
    query = {"namespace": namespace_text(ident.namespace), "prefix": ident.name}
    for row in client.pages(f"{bucket_path(bucket)}/tables", "tables", query):
        if row["name"] == ident.name:
            return str(row["metadataLocation"]) if row["metadataLocation"] else None
    return None


def _set_protection(table: str, bucket: str, url: str, *, protected: bool, as_json: bool) -> None:
    ident = parse_table(table)
    path = f"{table_path(bucket, ident)}/protection"
    answer = ManagementClient(url).send("PUT", path, body={"protected": protected}).document
    if as_json:
        print_json(answer)
    else:
        print_line(f"{_shown(ident)} is {'protected' if protected else 'not protected any more'}")


def _one_dropped(client: ManagementClient, bucket: str, ident: TableIdent, dropped_id: str | None) -> str:
    """The path of the dropped table of that name.

    Raises:
        Failed: there is none, or there are several and none was chosen.
    """
    at = f"{bucket_path(bucket)}/dropped-tables"
    query = {"namespace": namespace_text(ident.namespace), "name": ident.name}
    found = [
        row
        for row in client.pages(at, "droppedTables", query)
        if dropped_id is None or row["id"] == dropped_id
    ]
    if not found:
        which = "" if dropped_id is None else f" with the id {dropped_id}"
        raise Failed(f"no dropped table {_shown(ident)}{which}: see `frazil table dropped`")
    if len(found) > 1:
        told = ", ".join(f"{row['id']} ({moment(row['droppedAtMs'])})" for row in found)
        raise Failed(f"{len(found)} tables {_shown(ident)} were dropped: choose one by --id: {told}")
    return f"{at}/{segment(found[0]['id'])}"


def _future(row: JsonObject) -> str:
    if row["purgeJob"] is None:
        return f"can be restored until {moment(row['recoverableUntilMs'])}"
    state = row["purgeState"] or "gone"
    told = f"purge job {row['purgeJob']} is {state}"
    return f"{told}; can be restored until it begins" if row["recoverable"] else told


def _shown(ident: TableIdent) -> str:
    return shown_name(list(ident.namespace.levels), ident.name)
