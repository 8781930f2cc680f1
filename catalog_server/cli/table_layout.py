"""`frazil table list | show | files | snapshots | refs | reports`: what there is, how it is laid out, who used it."""

from itertools import islice
from typing import Annotated

import typer

from catalog_server.cli import resource_settings
from catalog_server.cli.client import (
    DEFAULT_URL,
    NAMESPACES,
    TABLE_HELP,
    TABLES,
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
from catalog_server.cli.output import duration, moment, print_json, print_record, print_table, remark, size
from table_format.jsontypes import JsonObject

tables = typer.Typer(
    no_args_is_help=True,
    help="Tables: what there is, how it is laid out; drop and restore, protect, hand over.",
)

OfTable = Annotated[str, typer.Argument(help=TABLE_HELP, autocompletion=TABLES)]


def _types(incomplete: str) -> list[str]:
    return [name for name in ("scan-report", "commit-report") if name.startswith(incomplete)]


@tables.command("list")
def list_tables(
    namespace: Annotated[
        str | None, typer.Argument(help="Only this namespace.", autocompletion=NAMESPACES)
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Only tables whose name begins so.")] = "",
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the tables of a namespace, or of the whole bucket."""
    query = {
        "namespace": None if namespace is None else namespace_text(parse_namespace(namespace)),
        "prefix": prefix or None,
    }
    found = list(ManagementClient(url).pages(f"{bucket_path(bucket)}/tables", "tables", query))
    if as_json:
        print_json(found)
        return
    rows = [
        [
            shown_name(row["namespace"], row["name"]),
            moment(row["updatedAtMs"]),
            row["protected"],
            f"{row['location']}{'' if row['metadataLocation'] else ' (no metadata yet)'}",
        ]
        for row in found
    ]
    print_table("Tables", ["table", "changed", "protected", "location"], rows)


@tables.command("show")
def show_table(
    table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Show where a table lies, what is kept for it, and its files by size: whether it needs compaction."""
    client, path = ManagementClient(url), table_path(bucket, parse_table(table))
    details = client.get(path)
    kept = resource_settings.kept(
        resource_settings.Resource(client=client, path=path, shown=f"table {table}", as_json=as_json)
    )
    if as_json:
        print_json({**details, **kept})
        return
    _print_details(details, kept)


@tables.command("files")
def files(table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show the data and delete files of a table's current snapshot by size."""
    found = ManagementClient(url).get(f"{table_path(bucket, parse_table(table))}/files")
    if as_json:
        print_json(found)
        return
    _print_sizes("Data files by size", found["dataFiles"])
    _print_sizes("Delete files by size", found["deleteFiles"])
    _remark_part(found)


@tables.command("snapshots")
def snapshots(
    table: OfTable,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")] = 20,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the snapshots of a table, newest first."""
    path = f"{table_path(bucket, parse_table(table))}/snapshots"
    query = {"pageSize": str(min(limit, 1000))}
    found = list(islice(ManagementClient(url).pages(path, "snapshots", query), limit))
    if as_json:
        print_json(found)
        return
    rows = [
        [
            str(row["snapshotId"]),
            moment(row["timestampMs"]),
            row["operation"],
            row["summary"].get("added-records", ""),
            row["summary"].get("total-records", ""),
            row["summary"].get("total-data-files", ""),
            ", ".join(row["refs"]),
        ]
        for row in found
    ]
    print_table("Snapshots", ["snapshot", "time", "operation", "added", "records", "files", "refs"], rows)


@tables.command("refs")
def refs(table: OfTable, bucket: Bucket = "default", url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the branches and tags of a table, with their own retention."""
    found = ManagementClient(url).get(f"{table_path(bucket, parse_table(table))}/refs")["refs"]
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["name"],
            row["type"],
            str(row["snapshotId"]),
            row["minSnapshotsToKeep"],
            _age(row["maxSnapshotAgeMs"]),
            _age(row["maxRefAgeMs"]),
        ]
        for row in found
    ]
    print_table("Refs", ["ref", "type", "snapshot", "keeps snapshots", "of age", "lasts"], rows)


@tables.command("reports")
def reports(
    table: OfTable,
    report_type: Annotated[
        str | None,
        typer.Option("--type", help="scan-report or commit-report; all when omitted.", autocompletion=_types),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")] = 20,
    bucket: Bucket = "default",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List what clients reported of their scans and commits, newest first."""
    path = f"{table_path(bucket, parse_table(table))}/metrics-reports"
    query = {"type": report_type, "pageSize": str(min(limit, 1000))}
    found = list(islice(ManagementClient(url).pages(path, "reports", query), limit))
    if as_json:
        print_json(found)
        return
    rows = [[moment(row["receivedAtMs"]), row["type"], *_report_cells(row["report"])] for row in found]
    print_table("Reports", ["received", "type", "snapshot", "took", "what"], rows)


def _report_cells(report: JsonObject) -> list[object]:
    """Snapshot, time and counts of a report, which may hold anything: clients wrote it."""
    metrics = report.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    took, counts = "", []
    for name, metric in metrics.items():
        members = metric if isinstance(metric, dict) else {}
        value, nanoseconds = members.get("value"), members.get("total-duration")
        if isinstance(value, int) and value:
            counts.append(f"{name} {value:,}")
        elif isinstance(nanoseconds, int) and name in ("total-duration", "total-planning-duration"):
            took = duration(nanoseconds / 1e6)
    operation = report.get("operation")
    told = [operation] if isinstance(operation, str) else []
    return [str(report.get("snapshot-id", "")), took, ", ".join([*told, *counts])]


def _print_details(details: JsonObject, kept: JsonObject) -> None:
    table, figures = details["table"], details["figures"]
    print_record(
        shown_name(table["namespace"], table["name"]),
        [
            ("bucket", table["bucket"]),
            ("ARN", table["arn"]),
            ("uuid", table["uuid"]),
            ("resource id", table["resourceId"]),
            ("location", table["location"]),
            ("metadata", table["metadataLocation"] or "none yet: made by CreateTable of the S3 Tables API"),
            ("metadata size", size(figures["metadataBytes"])),
            ("format version", details["formatVersion"]),
            ("protected", table["protected"]),
            *resource_settings.kept_members(kept),
            ("created", moment(table["createdAtMs"])),
            ("changed", moment(table["updatedAtMs"])),
            ("snapshots", figures["snapshots"]),
            ("manifests", figures["manifests"]),
            ("partitions", figures["partitions"]),
            ("data files", figures["dataFiles"]),
            ("delete files", figures["deleteFiles"]),
            ("records", figures["records"]),
            ("data size", size(figures["bytes"])),
        ],
    )
    _print_sizes("Data files by size", figures["fileSizes"])
    _remark_part(figures)


def _print_sizes(title: str, classes: list[JsonObject]) -> None:
    rows = [[_below(row["belowBytes"]), row["files"], size(row["bytes"])] for row in classes if row["files"]]
    print_table(title, ["size", "files", "bytes"], rows)


def _remark_part(found: JsonObject) -> None:
    if not found["complete"]:
        remark("the table is large: sizes and partitions are those of a part of its files")


def _below(bound: int | None) -> str:
    return "larger" if bound is None else f"below {size(bound)}"


def _age(ms: int | None) -> str:
    return "" if ms is None else duration(ms)
