"""Cleaning the metadata of schemas and partition specs that nothing needs any more, after an expiration.

A commit of its own. Schemas and specs that were in force within the last day stay whatever else: a writer may have
read them and not committed yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from maintenance.ports import Job, JobContext
from maintenance.report import Outcome, Report
from maintenance.target import is_target
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.commit.unused import ListCache, Unused, remove_unused, unused
from table_format.errors import CommitFailed, Invalid, NoSuchFile
from table_format.io.store import ObjectStore
from table_format.metadata.codec import read as read_metadata
from table_format.metadata.document import TableMetadata

WRITERS_MAY_TAKE_MS: Final = 24 * 3600 * 1000

_GONE: Final = (
    "an earlier metadata file of the last day cannot be read: unused schemas and specs stay until it is older"
)


@dataclass(slots=True)
class _Cleaning:
    """One run's attempts."""

    ctx: JobContext
    job: Job
    store: ObjectStore
    cache: ListCache
    found: Unused | None = None
    note: str | None = None

    def look(self, table: LoadedTable) -> Unused | None:
        earlier = self._earlier(table.metadata)
        self.note = _GONE if earlier is None else None
        return None if earlier is None else unused(self.store, table.metadata, earlier, self.cache)

    def build(self, current: LoadedTable) -> Change | None:
        if not is_target(current, self.job) or not self.ctx.still_leased():
            self.found = None
            return None
        self.found = self.look(current)
        return None if self.found is None else remove_unused(current, self.found)

    def _earlier(self, metadata: TableMetadata) -> Sequence[TableMetadata] | None:
        """The versions of the last day; None when one cannot be read."""
        since = self.ctx.clock.now_ms() - WRITERS_MAY_TAKE_MS
        log = sorted(metadata.metadata_log, key=lambda entry: int(entry["timestamp-ms"]))
        young = [entry for entry in log if int(entry["timestamp-ms"]) >= since]
        # The one before them was in force when the day began.
        before = [entry for entry in log if int(entry["timestamp-ms"]) < since][-1:]
        try:
            return [read_metadata(self.store, entry["metadata-file"]) for entry in (*before, *young)]
        except (NoSuchFile, Invalid):
            return None


def cleaned(ctx: JobContext, job: Job, table: LoadedTable, report: Report) -> Report:
    """The report of an expiration, after what nothing needs any more has gone from the metadata too.

    Raises:
        CommitStateUnknown: they may have gone; nothing depends on it.
        NoSuchFile: a manifest is gone.
    """
    if report.outcome not in (Outcome.DONE, Outcome.NOTHING):
        return report
    cleaning = _Cleaning(ctx, job, ctx.store_for(table.metadata.location), ListCache())
    if job.dry_run:
        found = cleaning.look(table)
    else:
        try:
            result = commit_with_retry(
                ctx.catalog,
                table.ident,
                cleaning.build,
                store=cleaning.store,
                clock=ctx.clock,
                ids=ctx.ids,
                attempts=ctx.settings.commit_attempts,
            )
        except CommitFailed as error:
            return _noted(report, f"unused schemas and specs stay: the table kept changing: {error.message}")
        found = cleaning.found if result.applied else None
    schemas, specs = ((), ()) if found is None else (found.schema_ids, found.spec_ids)
    told = _noted(report, cleaning.note) if cleaning.note is not None else report
    if not schemas and not specs:
        return told
    verb = "would leave" if job.dry_run else "left"
    return replace(
        told,
        outcome=Outcome.DONE,
        reason=f"{report.reason}; {len(schemas)} unused schemas and {len(specs)} unused specs {verb} the metadata",
        figures={
            **told.figures,
            "schemasRemoved": [str(one) for one in schemas],
            "specsRemoved": [str(one) for one in specs],
        },
    )


def _noted(report: Report, note: str) -> Report:
    notes = report.figures.get("notes", [])
    known = notes if isinstance(notes, list) else []
    return replace(report, figures={**report.figures, "notes": [*known, note]})
