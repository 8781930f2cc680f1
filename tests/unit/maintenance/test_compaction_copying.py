"""Compaction by copying row groups: when it is done, when not and why, and what is left when it fails."""

import io
import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maintenance.compaction import copying
from maintenance.compaction.job import run
from maintenance.compaction.plan_types import CompactionPlan
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.errors import Invalid, Unavailable, Unsupported
from table_format.io.faults import Counting, Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from table_format.schema.arrow import to_arrow
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = [{"belowBytes": 1 << 20, "targetBytes": 4 << 20}]


def lake_of(store=None, **properties):
    clock = ManualClock()
    return Lake(store or MemoryObjectStore(clock), clock=clock, **properties)


def context(lake, least=1, **settings):
    document = {"status": "enabled", "settings": {"tiers": TIERS, "minInputFiles": 2, **settings}}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(min_copied_row_group_bytes=least),
        documents={JobKind.COMPACTION: document},
        ident=IDENT,
    )


def compact(lake, ctx=None):
    return run(ctx or context(lake), job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))


def rows_of(start, number):
    return [{"id": n, "name": f"n{n % 7}"} for n in range(start, start + number)]


def add(lake, table, *, path=None, entry=None, **options):
    """Commit a file that was written with these options of pyarrow's."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{"compression": "zstd", **options})
    path = path or lake.path("d")
    lake.store.put(path, buffer.getvalue())
    file = DataFile(
        file_path=path,
        record_count=table.num_rows,
        file_size_in_bytes=len(buffer.getvalue()),
        **(entry or {}),
    )
    lake.append(file)
    return file


def table_of(lake, rows):
    return pa.Table.from_pylist(rows, schema=to_arrow(lake.metadata.schema()))


def fill(lake, files=4, number=300, **options):
    for n in range(files):
        add(lake, table_of(lake, rows_of(n * number, number)), **options)


def the_reason(report):
    (told,) = report.figures["notCopied"]
    return told.removeprefix("1 ")


def test_files_of_the_tables_own_columns_are_copied():
    lake = lake_of()
    fill(lake, write_page_index=True, row_group_size=100, compression="zstd")
    rows = lake.rows()
    report = compact(lake)
    (output,) = [task.entry.data_file for task in lake.tasks()]
    assert lake.rows() == rows
    assert report.outcome is Outcome.DONE
    told = {name: report.figures[name] for name in ("groups", "groupsCopied", "groupsRewritten", "notCopied")}
    assert told == {"groups": 1, "groupsCopied": 1, "groupsRewritten": 0, "notCopied": []}
    assert CompactionPlan.from_json(report.plan).groups[0].rewritten_because is None
    parquet = pq.ParquetFile(io.BytesIO(lake.store.get(output.file_path)))
    assert parquet.metadata.num_row_groups == 12
    assert output.record_count == 1200
    assert output.split_offsets == sorted(output.split_offsets)
    assert len(output.split_offsets) == 12
    assert output.file_size_in_bytes == lake.store.head(output.file_path).size


def test_metrics_are_those_that_rewriting_gives():
    copied, rewritten = lake_of(), lake_of()
    for lake, ctx in ((copied, context(copied)), (rewritten, context(rewritten, copyRowGroups=False))):
        fill(lake, number=50)
        compact(lake, ctx)
    (one,), (other,) = ([task.entry.data_file for task in lake.tasks()] for lake in (copied, rewritten))
    for name in ("record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        assert getattr(one, name) == getattr(other, name)
    assert set(one.column_sizes) == set(other.column_sizes)
    assert (one.sort_order_id, one.spec_id, one.partition) == (None, 0, ())


FLOATS = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "x", "required": False, "type": "double"}],
}


def floats(values):
    return pa.table({"x": pa.array(values, pa.float64())}).cast(to_arrow(FLOATS))


def bounds_of(lake):
    (file,) = [task.entry.data_file for task in lake.tasks()]
    return [
        None if not bounds or 1 not in bounds else to_float(bounds[1])
        for bounds in (file.lower_bounds, file.upper_bounds)
    ], (file.nan_value_counts or {}).get(1)


def to_float(raw):
    (value,) = memoryview(raw).cast("d")
    return value


def test_bounds_of_floats_are_never_tighter_than_the_data():
    """A writer that leaves out the statistics of a row group with a NaN hides its other values from the footer."""
    lake = lake_of(schema=FLOATS)
    add(lake, floats([1.0, 2.0] * 150))
    add(lake, floats([1.0, 2.0] * 150))
    add(lake, floats([100.0, float("nan"), 0.0] * 100), write_statistics=False)
    report = compact(lake)
    assert report.figures["groupsCopied"] == 1
    assert bounds_of(lake) == ([None, None], None)


def test_bounds_and_nan_counts_of_floats_come_from_the_entries_where_the_footer_has_none():
    lake = lake_of(schema=FLOATS)

    def told(low, high, nans):
        return {
            "lower_bounds": {1: struct.pack("<d", low)},
            "upper_bounds": {1: struct.pack("<d", high)},
            "nan_value_counts": {1: nans},
        }

    add(lake, floats([1.0, 2.0] * 100), entry=told(1.0, 2.0, 0))
    add(lake, floats([100.0, float("nan"), 3.0] * 100), write_statistics=False, entry=told(3.0, 100.0, 100))
    nothing = {"value_counts": {1: 9}, "null_value_counts": {1: 4}, "nan_value_counts": {1: 5}}
    add(lake, floats([float("nan")] * 5 + [None] * 4), write_statistics=False, entry=nothing)
    compact(lake)
    assert bounds_of(lake) == ([1.0, 100.0], 105)


# --- what is rewritten instead ---------------------------------------------------------------------------------


def odd_files(lake, kind):
    """Files of which the last one cannot be copied together with the others."""
    fill(lake, files=3)
    table = table_of(lake, rows_of(5000, 300))
    schema = table.schema
    if kind == "another-type":
        add(lake, table.set_column(0, schema.field(0).with_type(pa.int32()), table["id"].cast(pa.int32())))
    elif kind == "another-order":
        add(lake, table.select([1, 0]))
    elif kind == "a-column-less":
        add(lake, table.select([0]))
    elif kind == "a-column-more":
        add(
            lake,
            table.append_column(
                pa.field("z", pa.int32(), metadata={"PARQUET:field_id": "9"}), pa.array([1] * 300, pa.int32())
            ),
        )
    elif kind == "required":
        add(lake, table.cast(pa.schema([schema.field(0).with_nullable(False), schema.field(1)])))
    elif kind == "another-name":
        add(lake, table.rename_columns(["id", "renamed"]))
    elif kind == "another-program":
        add(lake, table)
        path = lake.tasks()[-1].entry.data_file.file_path
        lake.store.put(path, lake.store.get(path).replace(b"parquet-cpp-arrow", b"parquet-cpp-other"))
    elif kind == "other-metadata":
        add(lake, table.replace_schema_metadata({"writer.run": "7"}))


REASONS = {
    "another-type": "column 'id' is stored otherwise than as long",
    "another-order": "it has other columns than the table, or the same in another order or without ids",
    "a-column-less": "it has other columns than the table, or the same in another order or without ids",
    "a-column-more": "it has other columns than the table, or the same in another order or without ids",
    "required": "the files store their columns in different ways",
    "another-name": "the files store their columns in different ways",
    "another-program": "the files were written by different programs: parquet-cpp-arrow version",
    "other-metadata": "the files differ in what they say of 'writer.run'",
}


@pytest.mark.parametrize("kind", list(REASONS))
def test_files_that_differ_are_rewritten_and_the_report_says_why(kind):
    lake = lake_of()
    odd_files(lake, kind)
    rows = lake.rows()
    report = compact(lake)
    assert lake.rows() == rows
    assert len(lake.tasks()) == 1
    assert the_reason(report).startswith(REASONS[kind])
    assert (report.figures["groupsCopied"], report.figures["groupsRewritten"]) == (0, 1)


def test_what_the_plan_knows_needs_no_look_at_the_files():
    lake = lake_of(Counting(MemoryObjectStore(ManualClock())))
    fill(lake)
    for ctx, reason in (
        (context(lake, copyRowGroups=False), "copyRowGroups is off"),
        (context(lake, least=1 << 20), "small row groups"),
    ):
        lake.store.reset()
        report = run(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=True))
        assert CompactionPlan.from_json(report.plan).groups[0].rewritten_because == reason
        assert not [path for path in lake.store.paths.get("head", []) if "/data/" in path]


def test_many_small_row_groups_are_made_few_by_rewriting():
    """Copying would keep each of them for ever."""
    lake = lake_of()
    fill(lake, row_group_size=5, number=300)
    size = sum(task.entry.data_file.file_size_in_bytes for task in lake.tasks())
    report = compact(lake, context(lake, least=size // 100))
    (output,) = [task.entry.data_file for task in lake.tasks()]
    assert the_reason(report) == "small row groups"
    assert len(output.split_offsets) == 1


def test_deletes_are_applied_by_rewriting():
    lake = lake_of()
    fill(lake)
    path = lake.tasks()[0].entry.data_file.file_path
    lake.row_delta([], [lake.position_file([(path, 0)])])
    rows = lake.rows()
    report = compact(lake)
    assert lake.rows() == rows
    assert the_reason(report) == "deletes are applied"
    assert report.figures["rowsDeleted"] == 1


def test_files_with_deletes_are_not_copied_whatever_the_plan_says():
    lake = lake_of()
    fill(lake)
    path = lake.tasks()[0].entry.data_file.file_path
    lake.row_delta([], [lake.position_file([(path, 0)])])
    tasks = {task.entry.data_file.file_path: task for task in lake.tasks()}
    (group,) = CompactionPlan.from_json(compact(lake).plan).groups
    copier = copying.Copying(
        store=Failing(lake.store, [Rule(times=None)]),  # whoever touches a file here fails
        metadata=lake.metadata,
        ids=lake.ids,
        settings=JobSettings(min_copied_row_group_bytes=1),
        next_path=lambda: lake.path("copy"),
        go_on=lambda: None,
    )
    inputs = [tasks[file.path] for file in group.inputs]
    assert copier.attempt(replace(group, rewritten_because=None), inputs) == copying.DELETES


def test_a_table_that_names_another_codec_gets_it():
    lake = lake_of(**{"write.parquet.compression-codec": "zstd"})
    fill(lake, compression="snappy")
    assert the_reason(compact(lake)) == "files are compressed otherwise than the table wants"
    (output,) = [task.entry.data_file for task in lake.tasks()]
    footer = pq.ParquetFile(io.BytesIO(lake.store.get(output.file_path))).metadata
    assert footer.row_group(0).column(0).compression == "ZSTD"
    lake = lake_of(**{"write.parquet.compression-codec": "lz4"})
    fill(lake, compression="lz4")
    assert compact(lake).figures["groupsCopied"] == 1


@pytest.mark.parametrize("wrong", ["record_count", "file_size_in_bytes"])
def test_a_manifest_that_contradicts_the_file_is_not_copied_over(wrong):
    lake = lake_of()
    fill(lake, files=2)
    table = table_of(lake, rows_of(900, 300))
    path = lake.path("d")
    size = add(lake_of(), table, path=path).file_size_in_bytes
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    lake.store.put(path, buffer.getvalue())
    file = DataFile(file_path=path, record_count=300, file_size_in_bytes=size)
    lake.append(replace(file, **{wrong: getattr(file, wrong) + 1}))
    if wrong == "record_count":
        with pytest.raises(Invalid, match="has 300 rows, its manifest says 301"):
            compact(lake)
        assert len(lake.tasks()) == 3
    else:
        assert the_reason(compact(lake)) == "a file has another size than its manifest says"


def test_empty_files_among_others_are_no_obstacle():
    lake = lake_of()
    fill(lake, files=2)
    add(lake, table_of(lake, []))
    rows = lake.rows()
    assert compact(lake).figures["groupsCopied"] == 1
    assert lake.rows() == rows


# --- failures --------------------------------------------------------------------------------------------------


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location) if "compact-" in info.path}


class Corrupting(MemoryObjectStore):
    """A store whose compositions have a wrong byte, or end early."""

    def __init__(self, clock, how):
        super().__init__(clock)
        self.how = how

    def compose(self, path, pieces, go_on):
        through = super().compose(path, pieces, go_on)
        data = bytearray(self.get(path))
        if self.how == "short":
            del data[-1]
        elif self.how == "pages":
            data[4:-2000] = bytes(len(data) - 2004)
        else:
            data[-20] ^= 1
        self.put(path, bytes(data))
        return through


@pytest.mark.parametrize("how", ["short", "pages", "footer"])
def test_a_copy_that_is_not_right_is_never_committed(how):
    lake = lake_of(Corrupting(ManualClock(), how))
    fill(lake)
    rows = lake.rows()
    report = compact(lake)
    assert the_reason(report) == "the copy did not pass its check"
    assert lake.rows() == rows
    (task,) = lake.tasks()
    assert objects(lake) == {task.entry.data_file.file_path}  # the wrong copy is gone


def test_an_input_that_is_replaced_while_it_is_copied_stops_the_job_and_leaves_nothing():
    clock = ManualClock()

    class Replacing(MemoryObjectStore):
        def compose(self, path, pieces, go_on):
            self.put(pieces[0].path, self.get(pieces[0].path))
            return super().compose(path, pieces, go_on)

    lake = lake_of(Replacing(clock))
    fill(lake)
    rows = lake.rows()
    with pytest.raises(Unavailable, match="was replaced while it was copied"):
        compact(lake)
    assert lake.rows() == rows
    assert len(lake.tasks()) == 4
    assert objects(lake) == set()


@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_goes_away_leaves_nothing(after):
    memory = MemoryObjectStore(ManualClock())
    lake = lake_of(Failing(memory, [Rule(methods=frozenset({"compose"}), after=after)]))
    fill(lake)
    with pytest.raises(Unavailable):
        compact(lake)
    assert len(lake.tasks()) == 4
    assert objects(lake) == set()
    assert compact(lake).figures["groupsCopied"] == 1


def test_a_store_that_can_not_copy_has_the_rows_rewritten():
    cannot = Rule(methods=frozenset({"compose"}), error=lambda: Unsupported("the store can not copy parts"))
    lake = lake_of(Failing(MemoryObjectStore(ManualClock()), [cannot]))
    fill(lake)
    rows = lake.rows()
    assert the_reason(compact(lake)) == "the store can not copy parts"
    assert lake.rows() == rows
    assert len(objects(lake)) == 1


def test_a_cancelled_job_stops_between_two_pieces_and_leaves_nothing():
    lake = lake_of()
    fill(lake)
    ctx = context(lake)
    real = lake.store.compose

    def cancelled(path, pieces, go_on):
        ctx.cancelled = True
        return real(path, pieces, go_on)

    lake.store.compose = cancelled
    report = compact(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "cancelled" in report.reason
    assert len(lake.tasks()) == 4
    assert objects(lake) == set()


def test_a_draw_is_below_its_limit():
    class Highest:
        def jitter(self, low, high):
            return high

    lake = lake_of()
    made = copying.Copying(
        store=lake.store,
        metadata=lake.metadata,
        ids=Highest(),
        settings=JobSettings(),
        next_path=lambda: "",
        go_on=lambda: None,
    )
    assert made._draw(3) == 2
