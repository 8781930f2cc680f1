"""Known faults of maintenance and commits, planted one at a time: what the simulation must find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import update

import catalog_server.services.commits as commit_service
import maintenance.compaction.rewrite as rewriting
import maintenance.expiration.job as expiration_job
import maintenance.expiration.plan as expiration_plan
import maintenance.expiration.session as expiration_session
import maintenance.orphans.job as orphan_job
import maintenance.orphans.plan as orphan_plan
import maintenance.purge.job as purge_job
import table_format.commit.delete as delete_commit
import table_format.commit.rewrite as rewrite_commit
from catalog_server.services import commit_unit
from catalog_server.services.commit_unit import LostRace
from catalog_server.services.idempotency import IdempotencyService
from catalog_server.services.tables import TableService
from catalog_server.store import idempotency, pointers
from catalog_server.store.schema import tables
from maintenance import outputs, reach, watched
from maintenance.expiration.plan import Nothing, plan
from maintenance.reach import reach_of_gone
from table_format.commit import retry, tree
from table_format.commit.change import delete_quietly
from table_format.commit.producer import SnapshotProducer
from table_format.errors import CommitStateUnknown
from table_format.metadata import update_snapshot
from table_format.metadata.document import TableMetadata

Patch = pytest.MonkeyPatch


def compaction_takes_a_new_sequence_number(patch: Patch) -> None:
    """Deletes that came while it read do not reach its outputs any more (C2)."""
    honest = SnapshotProducer.write_added

    def write_added(self: Any, files: Any, *content: Any) -> Any:
        return honest(self, [(file, None) for file, _ in files], *content)

    patch.setattr(SnapshotProducer, "write_added", write_added)


def compaction_does_not_look_again(patch: Patch) -> None:
    """On the new head it replaces what it planned, whatever became of its inputs."""
    patch.setattr(rewrite_commit, "_still_holds", lambda _tree, _group: True)


def compaction_drops_all_deletes(patch: Patch) -> None:
    """As if what it leaves in place had none (C5)."""
    patch.setattr(tree.NextTree, "_is_dead", lambda _self, _delete: True)


def compaction_forgets_rows(patch: Patch) -> None:
    """The last row of a group is lost, and so is the check that would tell."""
    honest = rewriting._read

    def short(*args: Any, **how: Any) -> Iterator[Any]:
        for batch in honest(*args, **how):
            yield batch.slice(0, max(batch.num_rows - 1, 1))

    patch.setattr(rewriting, "_read", short)
    patch.setattr(rewriting, "check_rows", lambda *_, **__: None)
    patch.setattr(rewriting, "_check_tally", lambda *_: None)


def compaction_takes_no_answer_for_a_refusal(patch: Patch) -> None:
    """Its outputs go when the commit was not answered (R3)."""
    for module in (outputs, watched):
        patch.setattr(module, "CERTAINLY_REFUSED", (*watched.CERTAINLY_REFUSED, CommitStateUnknown))
    patch.setattr(retry, "RELOADS", 0)


def refused_commits_are_believed(patch: Patch) -> None:
    """After a 409 the files go without a look at the table (R1)."""

    def refused(loop: Any, change: Any) -> None:
        delete_quietly(loop.store, change.written)

    patch.setattr(retry, "_refused", refused)


def unanswered_commits_are_sent_again(patch: Patch) -> None:
    """Without a look whether they happened."""
    patch.setattr(retry._Loop, "landed", lambda _self, _table: None)


def expiration_deletes_before_its_commit(patch: Patch) -> None:
    """A tag that is set meanwhile finds nothing."""
    honest = expiration_job._start

    def early(ctx: Any, job: Any, table: Any, policy: Any) -> Any:
        planned = plan(table.metadata, policy, ctx.clock.now_ms(), limit=100)
        if not isinstance(planned, Nothing):
            store = ctx.store_for(table.metadata.location)
            kept = reach.Reach(ctx, job, store)
            kept.cover_all_but(table, planned.snapshot_ids)
            gone = reach_of_gone(store, table.metadata, planned.snapshot_ids)
            store.delete_many([path for path in gone if not kept.references.may_hold(path)])
        return honest(ctx, job, table, policy)

    patch.setattr(expiration_job, "_start", early)


def expiration_deletes_all_its_snapshots_had(patch: Patch) -> None:
    """Files that snapshots which stay need as well, too."""
    patch.setattr(expiration_session, "Reach", _blind)
    patch.setattr(expiration_job, "Reach", _blind)


def expiration_drops_tags(patch: Patch) -> None:
    """Though no age is set for them (B4)."""

    def expired(metadata: Any, *_: Any) -> list[str]:
        return sorted(name for name, ref in metadata.refs.items() if ref.get("type") == "tag")

    patch.setattr(expiration_plan, "_expired_refs", expired)


def expiration_ignores_offsets(patch: Patch) -> None:
    """And rewrites do not carry them: nobody knows how far ingest came."""
    patch.setattr(expiration_plan, "_offset_bearers", lambda *_: set())
    patch.setattr(rewrite_commit, "carried_ingest_keys", lambda _: {})
    patch.setattr(delete_commit, "carried_ingest_keys", lambda _: {})


def the_remover_knows_no_age(patch: Patch) -> None:
    """Files of commits on their way look unreferenced (A1)."""
    _without_marks(patch, orphan_plan.Ages(unreferenced_ms=-1, noncurrent_ms=0))


def the_remover_reads_no_manifests(patch: Patch) -> None:
    """It takes the metadata files for all that is needed (A13)."""
    patch.setattr(orphan_job, "Reach", _blind)
    _without_marks(patch, orphan_plan.Ages(unreferenced_ms=0, noncurrent_ms=0))


def _without_marks(patch: Patch, ages: orphan_plan.Ages) -> None:
    honest = orphan_plan.plan

    def at_once(evidence: Any, _wanted: Any, settings: Any, now_ms: int, **more: Any) -> Any:
        seen = replace(evidence, known={info.path: 0 for info in evidence.listing})
        return honest(seen, ages, settings, now_ms, **{**more, "allow_large_share": True})

    patch.setattr(orphan_job, "plan", at_once)


def the_swap_is_no_swap(patch: Patch) -> None:
    """The last writer wins (C20)."""

    def swap(connection: Any, change: Any, now_ms: int) -> bool:
        values = {
            "metadata_location": change.new,
            "previous_metadata_location": change.expected,
            "updated_at_ms": now_ms,
            "version": tables.c.version + 1,
        }
        connection.execute(update(tables).where(tables.c.id == change.table_id).values(**values))
        return True

    patch.setattr(pointers, "swap", swap)


def unknown_swaps_are_cleaned_up(patch: Patch) -> None:
    """The metadata file goes though the pointer may name it (R3)."""
    honest = commit_service.CommitService._swap

    async def swap(self: Any, *args: Any) -> Any:
        try:
            return await honest(self, *args)
        except CommitStateUnknown as error:
            raise commit_service.LostRace from error

    patch.setattr(commit_service.CommitService, "_swap", swap)


def keys_are_not_looked_at(patch: Patch) -> None:
    """A request with an Idempotency-Key that is sent again is carried out again (I6)."""

    async def find(_self: Any, _key: Any) -> None:
        return None

    patch.setattr(IdempotencyService, "find", find)
    patch.setattr(idempotency, "joined", lambda fn: fn)


def transactions_keep_what_worked(patch: Patch) -> None:
    """A part that lost its race is left out, the others are applied (I10)."""
    honest = commit_unit._point

    def point(connection: Any, unit: Any, part: Any) -> Any:
        try:
            return honest(connection, unit, part)
        except LostRace:
            if len(unit.parts) == 1:
                raise
            return part.planned.current.row

    patch.setattr(commit_unit, "_point", point)


def expiration_drops_branches(patch: Patch) -> None:
    """Though no age is set for them (B4)."""

    def expired(metadata: Any, *_: Any) -> list[str]:
        return sorted(
            name for name, ref in metadata.refs.items() if ref["type"] == "branch" and name != "main"
        )

    patch.setattr(expiration_plan, "_expired_refs", expired)


def compaction_misses_new_vectors(patch: Patch) -> None:
    """It replaces a data file whose deletion vector is younger than its plan."""
    patch.setattr(tree.HeadTree, "new_position_deletes", lambda *_: False)


def compaction_gives_rows_new_ids(patch: Patch) -> None:
    """Its outputs do not store what its inputs knew of their rows (format version 3)."""

    def to_carry(batch: Any, _entry: Any) -> Any:
        for place in (batch.num_columns - 2, batch.num_columns - 1):
            field = batch.schema.field(place)
            batch = batch.set_column(place, field, pa.nulls(batch.num_rows, field.type))
        return batch

    patch.setattr(rewriting, "to_carry", to_carry)


def row_ids_are_given_again(patch: Patch) -> None:
    """The table does not note which ones a commit took (format version 3)."""
    honest = update_snapshot._take_row_ids

    def take(draft: Any, snapshot: Any) -> None:
        following = draft.document.get("next-row-id")
        honest(draft, snapshot)
        if following is not None:
            draft.put("next-row-id", following)

    patch.setattr(update_snapshot, "_take_row_ids", take)


def clocks_are_believed(patch: Patch) -> None:
    """A server whose clock is behind writes history backwards (I4)."""
    patch.setattr(TableMetadata, "last_updated_ms", property(lambda _: 0))


def loads_are_answered_from_memory(patch: Patch) -> None:
    """A server gives what it saw a moment ago without a look at the pointer (I11)."""
    honest = TableService.load
    seen: dict[Any, tuple[int, Any]] = {}

    async def load(self: Any, principal: Any, bucket: str, ident: Any) -> Any:
        now_ms = self._clock.now_ms()
        known = seen.get((self, ident))
        if known is not None and now_ms - known[0] < 100:
            return known[1]
        found = await honest(self, principal, bucket, ident)
        seen[self, ident] = now_ms, found
        return found

    patch.setattr(TableService, "load", load)


def purges_leave_the_first_files(patch: Patch) -> None:
    """And are done (I9)."""
    honest = purge_job.delete_in_batches

    def short(ctx: Any, store: Any, paths: Any, *more: Any) -> Any:
        return honest(ctx, store, paths[3:], *more)

    patch.setattr(purge_job, "delete_in_batches", short)


def the_remover_only_marks(patch: Patch) -> None:
    """What nobody needs stays for ever (I9)."""
    honest = orphan_plan.plan

    def marks(*args: Any, **more: Any) -> Any:
        found = honest(*args, **more)
        return replace(found, delete=()) if isinstance(found, orphan_plan.OrphanPlan) else found

    patch.setattr(orphan_job, "plan", marks)


class _blind(reach.Reach):  # noqa: N801
    """Sees the newest metadata file and nothing that it reaches."""

    def cover(self, table: Any) -> None:
        self.references.add([table.metadata_location])

    def adopt(self, *_: Any) -> list[str]:
        return []


MUTANTS: dict[str, Callable[[Patch], None]] = {
    fn.__name__: fn
    for fn in (
        compaction_takes_a_new_sequence_number,
        compaction_does_not_look_again,
        compaction_drops_all_deletes,
        compaction_forgets_rows,
        compaction_takes_no_answer_for_a_refusal,
        refused_commits_are_believed,
        unanswered_commits_are_sent_again,
        expiration_deletes_before_its_commit,
        expiration_deletes_all_its_snapshots_had,
        expiration_drops_tags,
        expiration_ignores_offsets,
        the_remover_knows_no_age,
        the_remover_reads_no_manifests,
        the_swap_is_no_swap,
        unknown_swaps_are_cleaned_up,
        keys_are_not_looked_at,
        transactions_keep_what_worked,
        expiration_drops_branches,
        compaction_misses_new_vectors,
        compaction_gives_rows_new_ids,
        row_ids_are_given_again,
        clocks_are_believed,
        loads_are_answered_from_memory,
        purges_leave_the_first_files,
        the_remover_only_marks,
    )
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that fault."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield
