"""Any history: what expiration and unreferenced-file removal delete is never what the table still reaches."""

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.expiration.job import run as expire
from maintenance.orphans.job import run as remove
from maintenance.ports import JobKind, JobSettings
from maintenance.reach import metadata_files
from maintenance.report import Outcome
from table_format.io.faults import Failing
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import IDENT, Lake
from tests.factories.reach import files_reachable
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

HOUR, DAY = 3600, 86_400

steps = st.lists(
    st.sampled_from(["append", "append", "rewrite", "tag", "branch", "rollback", "again", "stray", "wait"]),
    min_size=2,
    max_size=12,
)


class Recording(Failing):
    """Remembers what was deleted."""

    def __init__(self, store):
        super().__init__(store)
        self.deleted = []

    def delete_many(self, paths):
        wanted = list(paths)
        self.deleted += wanted
        return super().delete_many(wanted)


class History:
    def __init__(self):
        clock = ManualClock()
        self.lake = Lake(MemoryObjectStore(clock), clock=clock)
        self.strays = []
        self.files = []

    def step(self, name):
        lake = self.lake
        head = lake.metadata.current_snapshot_id
        if name == "append" or (head is None and name not in ("stray", "wait")):
            self.files.append(lake.append_rows({"id": len(self.files), "name": "x"}))
        elif name == "rewrite" and len(lake.tasks()) > 1:
            lake.rewrite(lake.group())
        elif name in ("tag", "branch"):
            self.ref(f"{name}{len(lake.metadata.refs)}", head, name)
        elif name == "rollback":
            first = lake.metadata.snapshots[0]["snapshot-id"]
            self.ref("main", first, "branch")
        elif name == "again":
            live = {task.entry.data_file.file_path for task in lake.tasks()}
            if (gone := next((file for file in self.files if file.file_path not in live), None)) is not None:
                lake.append(gone)
        elif name == "stray":
            path = f"{lake.metadata.location}/data/stray{len(self.strays)}"
            lake.store.put(path, b"x")
            self.strays.append(path)
        lake.clock.advance(3 * HOUR if name == "wait" else 60)

    def ref(self, name, snapshot_id, kind):
        update = {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": snapshot_id, "type": kind}
        self.lake.catalog.commit(IDENT, [], [update])

    def context(self, store, **documents):
        lake = self.lake
        return FakeContext(
            catalog=lake.catalog,
            clock=lake.clock,
            ids=lake.ids,
            store=store,
            settings=JobSettings(delete_batch=3, max_snapshots_per_run=4, max_unreferenced_share=1.0),
            documents={JobKind(kind): document for kind, document in documents.items()},
            ident=IDENT,
        )

    def reachable(self):
        lake = self.lake
        ids = [snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots]
        return set(files_reachable(lake.store, lake.metadata, ids).all) | set(metadata_files(lake.table))

    def contents(self):
        """The rows of every ref."""
        return {name: self.lake.rows(ref["snapshot-id"]) for name, ref in self.lake.metadata.refs.items()}


@settings(max_examples=30, deadline=None)
@given(history=steps, keep=st.integers(1, 3))
def test_what_is_deleted_is_never_reachable(history, keep):
    made = History()
    for name in history:
        made.step(name)
    lake = made.lake
    before = made.contents()
    store = Recording(lake.store)
    document = {"status": "enabled", "settings": {"minSnapshotsToKeep": keep, "maxSnapshotAgeHours": 1}}
    ctx = made.context(store, icebergSnapshotManagement=document)
    for _ in range(12):
        if expire(ctx, job(JobKind.SNAPSHOTS, IDENT, lake.metadata.uuid)).outcome is Outcome.NOTHING:
            break
    assert not set(store.deleted) & made.reachable()
    assert made.contents() == before
    present = {info.path for info in lake.store.list(lake.metadata.location)}
    assert made.reachable() <= present
    # Nothing but strays, and files that appends of a rolled-back line left, is unreferenced after that.
    clean = made.context(store, icebergUnreferencedFileRemoval={"status": "enabled", "settings": {}})
    for _ in range(3):
        lake.clock.advance(14 * DAY)
        remove(clean, job(JobKind.UNREFERENCED, IDENT, lake.metadata.uuid))
    assert not set(store.deleted) & made.reachable()
    assert {info.path for info in lake.store.list(lake.metadata.location)} == made.reachable()
    assert made.contents() == before
