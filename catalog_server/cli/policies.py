"""`frazil policy`: read and change maintenance policies."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import orjson
import typer

from catalog_server.cli.client import (
    DEFAULT_URL,
    NAMESPACES,
    TABLES,
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
from catalog_server.cli.output import moment, print_json, print_line, print_table, remark
from maintenance.setting_rules import SETTINGS
from table_format.jsontypes import JsonObject

policies = typer.Typer(
    no_args_is_help=True,
    help="Maintenance policies. A table takes each value from itself, its namespace, its bucket, or the default.",
)
KINDS = {
    "compaction": "icebergCompaction",
    "snapshots": "icebergSnapshotManagement",
    "unreferenced": "icebergUnreferencedFileRemoval",
    "records": "icebergRecordExpiration",
    "manifests": "icebergManifests",
    "statistics": "icebergStatistics",
}
KIND_HELP = f"One of {', '.join(KINDS)} (or the policy's full name, such as icebergCompaction)."

_PAGE_LIMIT = 1000


def kinds(incomplete: str) -> list[str]:
    """Short names of the kinds, for completion."""
    return [name for name in KINDS if name.startswith(incomplete)]


Kind = Annotated[str, typer.Argument(help=KIND_HELP, autocompletion=kinds)]
OfTable = Annotated[
    str | None,
    typer.Option("--table", help="The policy of this table (NAMESPACE.NAME).", autocompletion=TABLES),
]
OfNamespace = Annotated[
    str | None, typer.Option("--namespace", help="The policy of this namespace.", autocompletion=NAMESPACES)
]


def policy_type(kind: str) -> str:
    """A policy's full name from its short one."""
    return KINDS.get(kind, kind)


def short_kind(name: str) -> str:
    """A policy's short name from its full one."""
    return next((short for short, full in KINDS.items() if full == name), name)


@policies.command("get")
def get_policies(
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what is set at exactly one table, namespace or (by default) bucket."""
    client = ManagementClient(url)
    scope = _scope(bucket, namespace, table)
    found = client.get(f"{scope}/policies")["policies"]
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = []
    for policy in found:
        rows.append([policy["type"], "status", policy["status"] or "as above it"])
        rows += [["", key, _text(value)] for key, value in policy["settings"].items()]
    where = "table" if table is not None else "bucket" if namespace is None else "namespace"
    print_table(f"Policies set at this {where}", ["policy", "setting", "value"], rows)


@policies.command("effective")
def effective_policies(
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what holds for a table, a namespace or (by default) a bucket, and where each value comes from."""
    found = _effective(ManagementClient(url), _scope(bucket, namespace, table))
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = []
    for policy in found:
        sources = policy["sources"]
        rows.append([policy["type"], "status", policy["status"], sources["status"]])
        rows += [["", key, _value(value), sources[key]] for key, value in policy["settings"].items()]
    print_table("Policies in force", ["policy", "setting", "value", "from"], rows)
    for policy in found:
        _print_remarks(policy)


@policies.command("explain")
def explain_policy(
    kind: Kind,
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Explain one policy: each setting there is, its value and where it comes from, and what it may be."""
    wanted = policy_type(kind)
    found = _effective(ManagementClient(url), _scope(bucket, namespace, table))
    policy = next((policy for policy in found if policy["type"] == wanted), None)
    if policy is None:
        raise typer.BadParameter(f"there is no policy {kind!r}: {KIND_HELP}")
    if as_json:
        print_json(policy)
        return
    sources, settings = policy["sources"], policy["settings"]
    bounds = {name: rule.bounds for name, rule in SETTINGS.get(wanted, {}).items()}
    rows: list[list[object]] = [["status", policy["status"], sources["status"], "enabled or disabled"]]
    rows += [
        [
            key,
            _value(settings.get(key)),
            sources.get(key, "not set"),
            bounds.get(key, ""),
        ]
        for key in dict.fromkeys([*settings, *bounds])
    ]
    print_table(wanted, ["setting", "value", "from", "may be"], rows)
    _print_remarks(policy)


@policies.command("history")
def policy_history(
    kind: Annotated[str | None, typer.Option("--kind", help=KIND_HELP, autocompletion=kinds)] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most so many.")] = 20,
    table: OfTable = None,
    namespace: OfNamespace = None,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the changes of the policies set at one table, namespace or (by default) bucket, newest first."""
    query = {
        "policyType": None if kind is None else policy_type(kind),
        "pageSize": str(min(limit, _PAGE_LIMIT)),
    }
    path = f"{_scope(bucket, namespace, table)}/policies/history"
    changes = list(islice(ManagementClient(url).pages(path, "changes", query), limit))
    if as_json:
        print_json(changes)
        return
    rows = [
        [
            moment(change["atMs"]),
            change["by"],
            change["type"],
            _shown(change["before"]),
            _shown(change["after"]),
        ]
        for change in changes
    ]
    print_table("Changes", ["when", "who", "policy", "before", "after"], rows)


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
    status: Annotated[
        str | None, typer.Option("--status", help="enabled, disabled, or inherited from the levels above.")
    ] = None,
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
    if status not in (None, "enabled", "disabled", "inherited"):
        raise typer.BadParameter(f"--status is {status!r}: write enabled, disabled or inherited")
    scope = _scope(bucket, namespace, table)
    path = f"{scope}/policies/{segment(policy_type(kind))}"
    client = ManagementClient(url)
    current = client.find(path)
    document: JsonObject = {"status": None, "settings": {}}
    if current is not None:
        document = {"status": current.document["status"], "settings": dict(current.document["settings"])}
    if settings is not None:
        document["settings"] = _json_object(settings)
    document["settings"].update(changes)
    if status is not None:
        document["status"] = None if status == "inherited" else status
    # A policy that somebody else sets at the same time is not overwritten either: version 0 is "not there".
    etag = '"0"' if current is None else current.etag
    answer = client.send("PUT", path, body=document, if_match=etag).document
    if as_json:
        print_json(answer)
    else:
        print_line(f"{answer['type']} of this {answer['scope']}: {_shown(answer)}")
        for policy in _effective(client, scope):
            if policy["type"] == answer["type"]:
                _print_remarks(policy)  # it may be off above it, or by the table's properties


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


def _effective(client: ManagementClient, scope: str) -> list[JsonObject]:
    found: list[JsonObject] = client.get(f"{scope}/policies/effective")["policies"]
    return found


def _print_remarks(policy: JsonObject) -> None:
    if policy["disabledReason"]:
        remark(f"{policy['type']} does not run: {policy['disabledReason']}")
    for note in policy["notes"]:
        remark(f"{policy['type']}: {note}")


def _shown(document: JsonObject | None) -> str:
    """A policy's document in a cell."""
    if document is None:
        return "not set"
    settings = ", ".join(f"{key}={_text(value)}" for key, value in document["settings"].items())
    return f"{document.get('status') or ''} {settings}".strip() or "nothing"


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


def _value(value: object) -> str:
    """A setting's value in a cell; one that nobody gives is not set."""
    return "not set" if value is None else _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
