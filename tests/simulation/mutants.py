"""Known faults of maintenance and commits, planted one at a time: what the simulation must find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

import catalog_server.services.commits as commit_service
import maintenance.compaction.session as compaction_session
import maintenance.expiration.job as expiration_job
import maintenance.expiration.plan as expiration_plan
import maintenance.expiration.session as expiration_session
import maintenance.orphans.job as orphan_job
import maintenance.orphans.plan as orphan_plan
import table_format.commit.delete as delete_commit
import table_format.commit.rewrite as rewrite_commit
from catalog_server.store import pointers
from catalog_server.store.schema import tables
from maintenance import reach
from maintenance.expiration.plan import Nothing, plan
from maintenance.reach import reach_of_gone
from table_format.commit import retry, tree
from table_format.commit.change import delete_quietly
from table_format.commit.producer import SnapshotProducer
from table_format.errors import CommitStateUnknown

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
    import maintenance.compaction.rewrite as rewriting

    honest = rewriting._read

    def short(*args: Any) -> Iterator[Any]:
        for batch in honest(*args):
            yield batch.slice(0, max(batch.num_rows - 1, 1))

    patch.setattr(rewriting, "_read", short)
    patch.setattr(rewriting, "check_rows", lambda *_, **__: None)
    patch.setattr(rewriting, "_check_tally", lambda *_: None)


def compaction_takes_no_answer_for_a_refusal(patch: Patch) -> None:
    """Its outputs go when the commit was not answered (R3)."""
    patch.setattr(
        compaction_session, "_CERTAINLY_REFUSED", (*compaction_session._CERTAINLY_REFUSED, CommitStateUnknown)
    )
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
    )
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that fault."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield
