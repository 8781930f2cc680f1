"""The manifest rewrite job: plan on the manifest list of main's head, write, list the new ones in one snapshot, report.

Content, row ids and sequence numbers stay as they are. Whatever writers commit meanwhile stays; when they (or another
maintenance) took a manifest away, its group is planned anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from maintenance.gate import admitted
from maintenance.manifests.plan import ManifestPlan, Nothing, overlap, plan
from maintenance.policy_types import ManifestPolicy
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import is_target, load_target
from table_format.catalog import LoadedTable
from table_format.commit.change import Change, delete_quietly
from table_format.commit.manifests import ManifestGroup, NamedManifests, cluster, replace_manifests
from table_format.commit.producer import check_writable
from table_format.commit.retry import commit_with_retry
from table_format.errors import CommitFailed, CommitStateUnknown, NoSuchFile, TableFormatError, Unsupported
from table_format.io.store import ObjectStore
from table_format.scan.plan import snapshot_manifests

_AFTER_CONFLICT_MS: Final = 5_000
_PLANS: Final = 3
"""How often a run plans, when all it wrote lost its race; then it comes back later."""


def run(ctx: JobContext, job: Job) -> Report:
    """Rewrite manifests of one table as far as one run goes.

    Raises:
        NoSuchFile, Invalid: a manifest is gone or damaged.
        CommitStateUnknown: the commit may have happened; the new manifests stay.
        Unavailable: the catalog or the store is away.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, ManifestPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    try:
        check_writable(table)
    except Unsupported as error:
        return skipped(error.message)
    run = _Run(ctx, job, policy, ctx.store_for(table.metadata.location))
    return run.dry(table) if job.dry_run else run.rewrite(table)


@dataclass(slots=True)
class _Written:
    """What one plan came to: manifests that are written, and what became of them."""

    groups: list[ManifestGroup] = field(default_factory=list)
    bytes_read: int = 0
    in_vain: int = 0
    """Manifests that would not have become fewer or better clustered."""
    left_alone: dict[str, int] = field(default_factory=dict)
    stopped: bool = False


class _Run:
    """One run."""

    def __init__(self, ctx: JobContext, job: Job, policy: ManifestPolicy, store: ObjectStore) -> None:
        self._ctx = ctx
        self._job = job
        self._policy = policy
        self._store = store
        self._lease_lost = False
        self._open: list[ManifestGroup] = []
        self._by_snapshot: dict[int, list[ManifestGroup]] = {}

    def dry(self, table: LoadedTable) -> Report:
        """What would be written anew."""
        planned = self._plan(table)
        if isinstance(planned, Nothing):
            return self._nothing(planned)
        number = sum(len(part.manifests) for part in planned.parts)
        size = sum(part.size for part in planned.parts)
        return Report(
            outcome=Outcome.DONE,
            reason=f"dry run: {number} manifests ({size} bytes) would be written anew",
            figures=self._figures(planned) | {"manifestsToRewrite": number, "bytesToRewrite": size},
            plan=planned.to_json(),
        )

    def rewrite(self, table: LoadedTable) -> Report:
        """Plan, write, commit; again when every manifest that was read is gone by then."""
        current = table
        for attempt in range(_PLANS):
            if attempt:
                current = self._ctx.catalog.load(table.ident)
                if not is_target(current, self._job):
                    return skipped(f"{table.ident} became another table while its manifests were rewritten")
            planned = self._plan(current)
            if isinstance(planned, Nothing):
                return self._nothing(planned)
            try:
                report = self._carry_out(current, planned)
            except NoSuchFile:
                # Expired while it was read; where nothing has changed, it is missing for good.
                if self._ctx.catalog.load(table.ident).metadata_location == current.metadata_location:
                    raise
                continue
            if report is not None:
                return report
        return Report(
            outcome=Outcome.CONFLICT,
            reason=f"the manifests were replaced by others while they were rewritten, {_PLANS} times: tried again soon",
            again_after_ms=_AFTER_CONFLICT_MS,
        )

    def _plan(self, table: LoadedTable) -> ManifestPlan | Nothing:
        head = table.metadata.current_snapshot
        listed = [] if head is None else snapshot_manifests(self._store, head)
        limit = self._ctx.settings.max_manifest_bytes_per_run
        return plan(listed, table.metadata, self._policy, limit_bytes=limit)

    def _carry_out(self, table: LoadedTable, planned: ManifestPlan) -> Report | None:
        """The report; None when all that was written lost its race."""
        names = NamedManifests(table.metadata, self._ctx.ids)
        used: set[str] | None = set()
        try:
            written = self._write(table, planned, names)
            if written.stopped:
                return skipped(f"nothing was committed: {self._ctx.stopped or LEASE_LOST}")
            if not written.groups:
                return self._in_vain(planned, written)
            done = self._commit(table)
            if done is not None:
                used = {manifest.path for group in done for manifest in group.outputs}
                return self._done(planned, written, done)
            return skipped(f"nothing was committed: {self._lost_to()}") if self._lease_lost else None
        except CommitStateUnknown:
            used = None
            raise
        except CommitFailed as error:
            reason = f"the table kept changing: {error.message}"
            return Report(outcome=Outcome.CONFLICT, reason=reason, again_after_ms=_AFTER_CONFLICT_MS)
        except TableFormatError:
            raise
        except BaseException:
            used = None  # nobody knows how far it came
            raise
        finally:
            if used is not None:
                delete_quietly(self._store, [path for path in names.given if path not in used])

    def _lost_to(self) -> str:
        return self._ctx.stopped or LEASE_LOST

    def _write(self, table: LoadedTable, planned: ManifestPlan, name: Callable[[], str]) -> _Written:
        written = _Written()
        for part in planned.parts:
            group = cluster(
                self._store,
                table.metadata,
                part.manifests,
                target=planned.target_bytes,
                name=name,
                stopped=lambda: self._ctx.stopped is not None,
            )
            if group is None:
                written.stopped = True
                break
            written.bytes_read += part.size
            for reason, number in group.left_alone.items():
                written.left_alone[reason] = written.left_alone.get(reason, 0) + number
            fewer = len(group.outputs) < len(group.inputs)
            if fewer or overlap(group.outputs, table.metadata) < overlap(group.inputs, table.metadata):
                written.groups.append(group)
            else:
                written.in_vain += len(group.inputs)
        self._open = list(written.groups)
        return written

    def _commit(self, table: LoadedTable) -> list[ManifestGroup] | None:
        """The groups that were committed; None when none was."""
        result = commit_with_retry(
            self._ctx.catalog,
            table.ident,
            self._build,
            store=self._store,
            clock=self._ctx.clock,
            ids=self._ctx.ids,
            attempts=self._ctx.settings.commit_attempts,
        )
        return None if result.snapshot_id is None else self._by_snapshot.get(result.snapshot_id)

    def _build(self, current: LoadedTable) -> Change | None:
        if not is_target(current, self._job):
            raise CommitFailed(f"{current.ident} became another table while its manifests were rewritten")
        if not self._ctx.still_leased():
            self._lease_lost = True
            return None
        change, lost = replace_manifests(
            self._store,
            current,
            self._open,
            summary={"maintenance.job-id": str(self._job.id)},
            clock=self._ctx.clock,
            ids=self._ctx.ids,
        )
        # A manifest that left the head does not come back: its name is not given again.
        self._open = [group for group in self._open if group not in lost]
        if change is not None and change.snapshot_id is not None:
            self._by_snapshot[change.snapshot_id] = list(self._open)
        return change

    def _figures(self, planned: ManifestPlan | Nothing) -> dict[str, Figure]:
        figures: dict[str, Figure] = {
            "manifestsBefore": planned.manifests,
            "leftAlone": [f"{number} {reason}" for reason, number in planned.left_alone.items()],
        }
        return figures | ({"notes": list(self._policy.notes)} if self._policy.notes else {})

    def _nothing(self, planned: Nothing) -> Report:
        return Report(outcome=Outcome.NOTHING, reason=planned.reason, figures=self._figures(planned))

    def _in_vain(self, planned: ManifestPlan, written: _Written) -> Report:
        told = [f"{number} {reason}" for reason, number in written.left_alone.items()]
        if written.in_vain:
            told.append(f"{written.in_vain} would become neither fewer nor better clustered")
        return Report(
            outcome=Outcome.NOTHING,
            reason=f"no manifest is worth replacing: {', '.join(told)}",
            figures=self._figures(planned),
            plan=planned.to_json(),
        )

    def _done(self, planned: ManifestPlan, written: _Written, done: list[ManifestGroup]) -> Report:
        replaced = sum(len(group.inputs) for group in done)
        outputs = [manifest for group in done for manifest in group.outputs]
        left = {**planned.left_alone}
        for reason, number in written.left_alone.items():
            left[reason] = left.get(reason, 0) + number
        figures = self._figures(planned) | {
            "leftAlone": [f"{number} {reason}" for reason, number in left.items()],
            "manifestsReplaced": replaced,
            "manifestsCreated": len(outputs),
            "entriesProcessed": sum(group.entries for group in done),
            "bytesRead": written.bytes_read,
            "bytesWritten": sum(manifest.length for manifest in outputs),
            "conflicts": len(written.groups) - len(done),
            "remainingManifests": planned.remaining,
        }
        reason = f"{replaced} manifests became {len(outputs)}"
        if planned.remaining:
            reason += f"; {planned.remaining} are left for the next run"
        again = 0 if planned.remaining or len(done) < len(written.groups) else None
        return Report(
            outcome=Outcome.DONE, reason=reason, figures=figures, plan=planned.to_json(), again_after_ms=again
        )
