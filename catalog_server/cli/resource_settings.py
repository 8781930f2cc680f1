"""What is kept for a bucket or table, as commands of either show and change it: tags, resource policy, and so on.

Every change is made to what was read: if somebody else changed it in between, it is refused.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from catalog_server.cli.client import ManagementClient
from catalog_server.cli.output import Failed, print_json, print_line
from catalog_server.cli.pairs import changed, shown_pairs
from table_format.jsontypes import JsonObject

Pairs = Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Tags to set.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys of the tags to remove.")]
PolicyFile = Annotated[
    str | None, typer.Option("--set", metavar="FILE", help="Set it from a file; - is standard input.")
]
Algorithm = Annotated[str | None, typer.Option("--set", help="Ask for AES256 or aws:kms.")]
Key = Annotated[str | None, typer.Option("--key", metavar="ARN", help="The key, with aws:kms.")]
StorageClass = Annotated[str | None, typer.Option("--set", help="Ask for STANDARD or INTELLIGENT_TIERING.")]
Remove = Annotated[bool, typer.Option("--remove", help="Take it away.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A bucket or table on a server."""

    client: ManagementClient
    path: str
    shown: str
    """For people: "bucket sales"."""
    as_json: bool

    def show(self, document: JsonObject, text: str) -> None:
        """Print an answer, as JSON or in words."""
        if self.as_json:
            print_json(document)
        else:
            print_line(text)


def change_tags(on: Resource, pairs: Sequence[str], keys: Sequence[str]) -> None:
    """Set tags and remove some, and show what is there then."""
    path = f"{on.path}/tags"
    before = on.client.send("GET", path)
    wanted = {"tags": changed(before.document["tags"], pairs, keys)}
    after = on.client.send("PUT", path, body=wanted, if_match=before.etag).document
    on.show(after, f"tags of {on.shown}: {shown_pairs(after['tags']) or 'none'}")


def resource_policy(on: Resource, file: str | None, *, remove: bool) -> None:
    """Show, set or remove the resource policy."""
    if _changes(file, remove=remove) is False:
        found = on.client.get(f"{on.path}/resource-policy")
        on.show(found, found["resourcePolicy"])
    elif file is not None:
        answer = _put(on, "resource-policy", {"resourcePolicy": _text(file)})
        on.show(answer, f"{on.shown} has this resource policy now; it is kept, not enforced")
    else:
        _remove(on, "resource-policy", "resource policy")


def encryption(on: Resource, algorithm: str | None, key: str | None, *, remove: bool) -> None:
    """Show, ask for or take away the encryption."""
    if key is not None and algorithm is None:
        raise typer.BadParameter("--key goes with --set aws:kms")
    if _changes(algorithm, remove=remove) is False:
        found = on.client.get(f"{on.path}/encryption")
        on.show(found, f"encryption of {on.shown}: {shown_encryption(found)}")
    elif algorithm is not None:
        body = {"sseAlgorithm": algorithm} | ({} if key is None else {"kmsKeyArn": key})
        answer = _put(on, "encryption", body)
        on.show(answer, f"encryption of {on.shown}: {shown_encryption(answer)}; it is kept, not applied")
    else:
        _remove(on, "encryption", "encryption")


def storage_class(on: Resource, wanted: str | None, *, remove: bool) -> None:
    """Show, ask for or take away the storage class."""
    if _changes(wanted, remove=remove) is False:
        found = on.client.get(f"{on.path}/storage-class")
        on.show(found, f"storage class of {on.shown}: {shown_storage_class(found)}")
    elif wanted is not None:
        answer = _put(on, "storage-class", {"storageClass": wanted})
        told = f"storage class of {on.shown}: {shown_storage_class(answer)}; it is kept, not applied"
        on.show(answer, told)
    else:
        _remove(on, "storage-class", "storage class")


def metrics(on: Resource, *, wanted: bool | None) -> None:
    """Show whether metrics were asked for, ask for them, or no more."""
    path = f"{on.path}/metrics-configuration"
    before = on.client.send("GET", path)
    found = before.document
    if wanted is not None:
        found = on.client.send("PUT", path, body={"enabled": wanted}, if_match=before.etag).document
    told = "asked for" if found["enabled"] else "not asked for"
    on.show(found, f"metrics of {on.shown}: {told} (they are at /metrics in any case)")


def kept(on: Resource) -> JsonObject:
    """All that is kept for it, as `show` tells it; None for what is not there."""
    policy, asked = (on.client.find(f"{on.path}/{name}") for name in ("resource-policy", "encryption"))
    return {
        "tags": on.client.get(f"{on.path}/tags")["tags"],
        "resourcePolicy": None if policy is None else policy.document["resourcePolicy"],
        "encryption": None if asked is None else asked.document,
        "storageClass": on.client.get(f"{on.path}/storage-class"),
    }


def kept_members(found: JsonObject) -> list[tuple[str, object]]:
    """Lines of what `kept` found."""
    asked, policy = found["encryption"], found["resourcePolicy"]
    return [
        ("tags", shown_pairs(found["tags"])),
        ("resource policy", None if policy is None else f"{len(policy.encode()):,} bytes"),
        ("encryption", None if asked is None else shown_encryption(asked)),
        ("storage class", shown_storage_class(found["storageClass"])),
    ]


def shown_encryption(found: JsonObject) -> str:
    """An encryption in a few words."""
    key = f" by {found['kmsKeyArn']}" if found["kmsKeyArn"] else ""
    return f"{found['sseAlgorithm']}{key} (asked for at the {found['source']})"


def shown_storage_class(found: JsonObject) -> str:
    """A storage class in a few words."""
    source = found["source"]
    return (
        f"{found['storageClass']} ({'by default' if source == 'default' else f'asked for at the {source}'})"
    )


def _changes(value: str | None, *, remove: bool) -> bool:
    if value is not None and remove:
        raise typer.BadParameter("give --set or --remove, not both")
    return value is not None or remove


def _put(on: Resource, name: str, body: JsonObject) -> JsonObject:
    path = f"{on.path}/{name}"
    before = on.client.find(path)
    # What a table has of its bucket comes with version 0 too: nothing of its own is there.
    etag = '"0"' if before is None else before.etag
    return on.client.send("PUT", path, body=body, if_match=etag).document


def _remove(on: Resource, name: str, what: str) -> None:
    path = f"{on.path}/{name}"
    before = on.client.send("GET", path)
    on.client.send("DELETE", path, if_match=before.etag)
    on.show({"removed": True}, f"{on.shown} has no {what} of its own any more")


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{file} can not be read: {error}") from None
