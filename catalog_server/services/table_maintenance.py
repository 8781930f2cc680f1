"""Maintenance of one table in the words of the S3 Tables API: a view of its policies and of the jobs that ran on it.

What is told is what is in force: the table's own policy, those above it, and what the table's properties say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from catalog_server.services.current import load_current
from catalog_server.services.documents import DocumentCache
from catalog_server.services.principals import Principal
from catalog_server.store import job_results, pointers
from catalog_server.store.engine import Database
from catalog_server.store.table_entries import TableEntry
from maintenance import policies as rules
from maintenance.policies import PolicyType
from maintenance.records.plan import column_of
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

_MIB: Final = 1024 * 1024
_HOUR_S: Final = 3600


class RunStatus(StrEnum):
    """How maintenance of one kind stands."""

    NOT_YET_RUN = "Not_Yet_Run"
    SUCCESSFUL = "Successful"
    FAILED = "Failed"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One kind of maintenance as it is in force for a table, whoever set it."""

    enabled: bool
    settings: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """How one kind of maintenance stands, and when it ran last."""

    status: RunStatus
    finished_at_ms: int | None
    message: str | None
    """Why the last run failed, or why there are none."""
    report: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
    """What decides over the maintenance of a table: the policies that reach it, and its metadata unless it is blank."""

    layers: list[pointers.Layer]
    metadata: TableMetadata | None

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self.metadata is None else self.metadata.properties


class TableMaintenanceService:
    """Use-cases of the S3 Tables API on maintenance of a table."""

    def __init__(self, database: Database, documents: DocumentCache) -> None:
        self._database = database
        self._documents = documents

    async def configuration(self, principal: Principal, entry: TableEntry, kind: PolicyType) -> Configuration:
        """What is in force for the table, of compaction, snapshots or records, in AWS's words.

        A value that they have no word for is rounded down to one that they have, but never to nothing.
        """
        around = await self._around(entry)
        layers = [(layer.scope, layer.documents.get(kind.value, {})) for layer in around.layers]
        explained = rules.explain(kind.value, layers, around.properties)
        values = {name: sourced.value for name, sourced in explained.settings.items()}
        return Configuration(enabled=values["status"] == "enabled", settings=_in_aws_words(kind, values))

    async def last_run(self, principal: Principal, entry: TableEntry, kind: PolicyType) -> LastRun:
        """How the last run on the table ended, or why there is none."""
        around = await self._around(entry)
        documents = [layer.documents.get(kind.value, {}) for layer in around.layers]
        policy = rules.effective(kind.value, documents, around.properties)
        ended = await self._database.read(job_results.last, entry.table_uuid, kind.value)
        finished = None if ended is None else ended.finished_at_ms
        report = None if ended is None else ended.report
        if not policy.enabled:
            return LastRun(
                status=RunStatus.DISABLED,
                finished_at_ms=finished,
                message=policy.disabled_reason,
                report=report,
            )
        if ended is None:
            return LastRun(status=RunStatus.NOT_YET_RUN, finished_at_ms=None, message=None, report=None)
        status = RunStatus.FAILED if ended.failed else RunStatus.SUCCESSFUL
        return LastRun(
            status=status,
            finished_at_ms=finished,
            message=ended.error if ended.failed else None,
            report=report,
        )

    async def why_no_record_expiration(self, principal: Principal, entry: TableEntry) -> str | None:
        """Why rows of the table can not expire; None when they can."""
        around = await self._around(entry)
        if around.metadata is None:
            return "the table has no metadata yet"
        layers = [("", layer.documents.get(PolicyType.RECORDS.value, {})) for layer in around.layers]
        column = rules.explain(PolicyType.RECORDS.value, layers, around.properties).value("column")
        try:
            column_of(around.metadata, None if column is None else str(column))
        except Invalid as error:
            return error.message
        return None

    async def _around(self, entry: TableEntry) -> _Surroundings:
        layers = await self._database.hot(pointers.policy_layers(entry))
        if entry.metadata_location is None:
            return _Surroundings(layers=layers, metadata=None)
        found = await load_current(self._database, self._documents, entry.bucket, entry.ident)
        return _Surroundings(layers=layers, metadata=None if found is None else found[1].metadata)


def _in_aws_words(kind: PolicyType, values: Mapping[str, object]) -> JsonObject:
    def number(name: str) -> int | None:
        value = values.get(name)
        return int(value) if isinstance(value, int) else None

    if kind is PolicyType.COMPACTION:
        in_bytes = number("targetFileSizeBytes")
        megabytes = number("targetFileSizeMB") if in_bytes is None else in_bytes // _MIB
        return {"targetFileSizeMB": max(megabytes or 0, 1), "strategy": values["strategy"]}
    if kind is PolicyType.SNAPSHOTS:
        seconds = number("maxSnapshotAgeSeconds")
        hours = number("maxSnapshotAgeHours") if seconds is None else seconds // _HOUR_S
        return {
            "minSnapshotsToKeep": max(number("minSnapshotsToKeep") or 0, 1),
            "maxSnapshotAgeHours": max(hours or 0, 1),
        }
    days = number("days")
    return {} if days is None else {"days": days}
