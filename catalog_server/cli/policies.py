"""`frazil policy`: read and change maintenance policies."""

from collections.abc import Sequence
from typing import Annotated

import orjson
import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    Bucket,
    Json,
    ManagementClient,
    Url,
    bucket_path,
    namespace_path,
    parse_namespace,
    parse_table,
    segment,
    table_path,
)
from catalog_server.cli.output import print_json, print_line, print_table
from table_format.jsontypes import JsonObject

policies = typer.Typer(
    no_args_is_help=True,
    help="Maintenance policies. A table takes each value from itself, its namespace, its bucket, or the default.",
)
KINDS = {
    "compaction": "icebergCompaction",
    "snapshots": "icebergSnapshotManagement",
    "unreferenced": "icebergUnreferencedFileRemoval",
}
KIND_HELP = f"One of {', '.join(KINDS)} (or the policy's full name, such as icebergCompaction)."

Kind = Annotated[str, typer.Argument(help=KIND_HELP)]
OfTable = Annotated[str | None, typer.Option("--table", help="The policy of this table (NAMESPACE.NAME).")]
OfNamespace = Annotated[str | None, typer.Option("--namespace", help="The policy of this namespace.")]


def policy_type(kind: str) -> str:
    """A policy's full name from its short one."""
    return KINDS.get(kind, kind)


@policies.command("get")
def get_policies(
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what holds for a table and where each value comes from, or what is set at a namespace or bucket."""
    found = ManagementClient(url).get(f"{_scope(bucket, namespace, table)}/policies")["policies"]
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = []
    for policy in found:
        sources = policy.get("sources") or {}
        scope = policy.get("scope", "")
        rows.append([policy["type"], "status", policy["status"], sources.get("status", scope)])
        rows += [
            ["", key, _text(value), sources.get(key, scope)] for key, value in policy["settings"].items()
        ]
    print_table("Policies", ["policy", "setting", "value", "set at"], rows)


@policies.command("set")
def set_policy(  # noqa: PLR0913 - each is one option of the command
    *,
    kind: Kind,
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change.")
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", help="All settings as one JSON object, instead of pairs.")
    ] = None,
    status: Annotated[str | None, typer.Option("--status", help="enabled or disabled.")] = None,
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Set a policy for a table, a namespace or (by default) a whole bucket.

    KEY=VALUE pairs change only those settings; --settings replaces all. Example:
    frazil policy set compaction --table demo.flights targetFileSizeMB=128
    """
    changes = _pairs(pairs or [])
    path = f"{_scope(bucket, namespace, table)}/policies/{segment(policy_type(kind))}"
    client = ManagementClient(url)
    current = client.find(path)
    document: JsonObject = {"status": "enabled", "settings": {}}
    if current is not None:
        document = {"status": current.document["status"], "settings": dict(current.document["settings"])}
    if settings is not None:
        document["settings"] = _json_object(settings)
    document["settings"].update(changes)
    if status is not None:
        document["status"] = status
    etag = None if current is None else current.etag
    answer = client.send("PUT", path, body=document, if_match=etag).document
    if as_json:
        print_json(answer)
    else:
        print_line(
            f"{answer['type']} of this {answer['scope']}: {answer['status']} {_text(answer['settings'])}"
        )


@policies.command("unset")
def unset_policy(
    kind: Kind,
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Remove a policy, so that the one of the level above holds."""
    path = f"{_scope(bucket, namespace, table)}/policies/{segment(policy_type(kind))}"
    ManagementClient(url).send("DELETE", path)
    if as_json:
        print_json({"type": policy_type(kind), "removed": True})
    else:
        print_line(f"{policy_type(kind)} is not set here any more")


def _scope(bucket: str, namespace: str | None, table: str | None) -> str:
    if table is not None and namespace is not None:
        raise typer.BadParameter("give --table or --namespace, not both (a table is named NAMESPACE.NAME)")
    if table is not None:
        return table_path(bucket, parse_table(table))
    if namespace is not None:
        return namespace_path(bucket, parse_namespace(namespace))
    return bucket_path(bucket)


def _pairs(pairs: Sequence[str]) -> JsonObject:
    changes: JsonObject = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE")
        try:
            changes[key] = orjson.loads(text)
        except orjson.JSONDecodeError:
            changes[key] = text  # a bare word is a string
    return changes


def _json_object(text: str) -> JsonObject:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"--settings is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("--settings must be a JSON object")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
