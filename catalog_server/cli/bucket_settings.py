"""`frazil bucket tag | untag | resource-policy | encryption | storage-class | metrics`: what is kept for a bucket."""

from typing import Annotated

import typer

from catalog_server.cli import resource_settings as kept
from catalog_server.cli.buckets import Name, buckets
from catalog_server.cli.client import DEFAULT_URL, Json, ManagementClient, Url, bucket_path

__all__ = ["buckets"]

Metrics = Annotated[
    bool | None, typer.Option("--on/--off", help="Ask for metrics, or no more; without either, show.")
]


@buckets.command("tag")
def tag_bucket(name: Name, pairs: kept.Pairs, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Set tags; those of other keys stay."""
    kept.change_tags(_bucket(name, url, as_json=as_json), pairs, ())


@buckets.command("untag")
def untag_bucket(name: Name, keys: kept.Keys, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Remove tags."""
    kept.change_tags(_bucket(name, url, as_json=as_json), (), keys)


@buckets.command("resource-policy")
def bucket_policy(
    name: Name,
    file: kept.PolicyFile = None,
    remove: kept.Remove = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the resource policy of a bucket, or set or remove it. It is kept, not enforced."""
    kept.resource_policy(_bucket(name, url, as_json=as_json), file, remove=remove)


@buckets.command("encryption")
def bucket_encryption(
    *,
    name: Name,
    algorithm: kept.Algorithm = None,
    key: kept.Key = None,
    remove: kept.Remove = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the encryption that is asked for of a bucket, or ask for one or none. It is kept, not applied."""
    kept.encryption(_bucket(name, url, as_json=as_json), algorithm, key, remove=remove)


@buckets.command("storage-class")
def bucket_storage_class(
    name: Name,
    wanted: kept.StorageClass = None,
    remove: kept.Remove = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the storage class that is asked for of a bucket, or ask for one or none. It is kept, not applied."""
    kept.storage_class(_bucket(name, url, as_json=as_json), wanted, remove=remove)


@buckets.command("metrics")
def bucket_metrics(name: Name, wanted: Metrics = None, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show or change whether S3 Tables clients are told that metrics of a bucket were asked for."""
    kept.metrics(_bucket(name, url, as_json=as_json), wanted=wanted)


def _bucket(name: str, url: str, *, as_json: bool) -> kept.Resource:
    client = ManagementClient(url)
    return kept.Resource(client=client, path=bucket_path(name), shown=f"bucket {name}", as_json=as_json)
