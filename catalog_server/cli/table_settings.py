"""`frazil table tag | untag | resource-policy | encryption | storage-class`: what is kept for a table.

The commands differ in their signatures alone, which are spelled out: Typer reads options from them, and so do people.
What they do is in `resource_settings`, for buckets too.
"""

from catalog_server.cli import resource_settings as kept
from catalog_server.cli.client import (
    DEFAULT_URL,
    Bucket,
    Json,
    ManagementClient,
    Url,
    parse_table,
    shown_name,
    table_path,
)
from catalog_server.cli.table_changes import tables
from catalog_server.cli.table_layout import OfTable

__all__ = ["tables"]


@tables.command("tag")
def tag_table(
    table: OfTable,
    pairs: kept.Pairs,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Set tags; those of other keys stay."""
    kept.change_tags(_table(table, bucket, url, as_json=as_json), pairs, ())


@tables.command("untag")
def untag_table(
    table: OfTable, keys: kept.Keys, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Remove tags."""
    kept.change_tags(_table(table, bucket, url, as_json=as_json), (), keys)


@tables.command("resource-policy")
def table_policy(
    *,
    table: OfTable,
    file: kept.PolicyFile = None,
    remove: kept.Remove = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the resource policy of a table, or set or remove it. It is kept, not enforced."""
    kept.resource_policy(_table(table, bucket, url, as_json=as_json), file, remove=remove)


@tables.command("encryption")
def table_encryption(
    *,
    table: OfTable,
    algorithm: kept.Algorithm = None,
    key: kept.Key = None,
    remove: kept.Remove = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the encryption that is asked for of a table or else of its bucket, or ask for one or none."""
    kept.encryption(_table(table, bucket, url, as_json=as_json), algorithm, key, remove=remove)


@tables.command("storage-class")
def table_storage_class(
    *,
    table: OfTable,
    wanted: kept.StorageClass = None,
    remove: kept.Remove = False,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the storage class that is asked for of a table or else of its bucket, or ask for one or none."""
    kept.storage_class(_table(table, bucket, url, as_json=as_json), wanted, remove=remove)


def _table(table: str, bucket: str, url: str, *, as_json: bool) -> kept.Resource:
    ident = parse_table(table)
    return kept.Resource(
        client=ManagementClient(url),
        path=table_path(bucket, ident),
        shown=f"table {shown_name(list(ident.namespace.levels), ident.name)}",
        as_json=as_json,
    )
