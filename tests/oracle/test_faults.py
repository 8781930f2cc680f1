"""The oracle finds what it is there to find: jobs that lose, double or alter rows, or touch what is not theirs."""

import random
from collections.abc import Callable

import pytest

from tests.oracle import jobs
from tests.oracle.histories import History, Wrong
from tests.oracle.jobs import Job
from tests.oracle.lab import Lab, path_of

pytestmark = [pytest.mark.java, pytest.mark.engine, pytest.mark.timeout(300)]


def loses_a_row(history: History) -> str:
    history.lab.ask(history.table, "deletePositions", rows=[], seed=1, share=1.0, per="file")
    return "done"


def doubles_a_row(history: History) -> str:
    history.lab.ask(history.table, "write", rows=ROWS[:1], how="append")
    return "done"


def gives_new_row_ids(history: History) -> str:
    """The same rows, written as new ones."""
    history.lab.ask(history.table, "overwrite", rows=ROWS, seed=1, share=1.0)
    return "done"


def moves_a_tag(history: History) -> str:
    head = history.version.heads["main"]
    history.lab.commit(
        history.table,
        {"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": head},
    )
    return "done"


def drops_a_tag(history: History) -> str:
    history.lab.commit(history.table, {"action": "remove-snapshot-ref", "ref-name": "kept"})
    return "done"


def deletes_a_needed_file(history: History) -> str:
    data = path_of(history.version.metadata.location) / "data"
    next(data.rglob("*.parquet")).unlink()
    return "done"


ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
FAULTS: list[tuple[Callable[[History], str], str]] = [
    (loses_a_row, "main's head: 2 rows, then 0"),
    (doubles_a_row, "main's head: 2 rows, then 3"),
    (gives_new_row_ids, "main's head: 2 rows, then 2"),
    (moves_a_tag, "a job moved"),
    (drops_a_tag, "branches or tags are gone"),
]


def made(lab: Lab) -> History:
    """A table of format version 3 with two rows, and a tag at a snapshot before the head."""
    history = History(lab, 0, random.Random(0))
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ]
    schema = {"type": "struct", "fields": fields}
    history.table = lab.create({"schema": schema, "properties": {"format-version": "3"}})
    for row in ROWS:
        lab.ask(history.table, "write", rows=[row], how="append")
    first = lab.version(history.table).snapshots[0]
    lab.ask(history.table, "changeRefs", how="tag", name="kept", snapshot=first)
    history.look()
    return history


@pytest.mark.parametrize(("fault", "told"), FAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_job_with_a_fault_is_found(lab: Lab, fault: Callable[[History], str], told: str) -> None:
    history = made(lab)
    history.maintain(next(job for job in jobs.ALL if job.name == "binpack"))
    with pytest.raises(Wrong, match=told):
        history.maintain(Job("faulty", fault, History.same_rows))


def test_a_file_that_an_old_snapshot_needs_is_missed(lab: Lab) -> None:
    history = made(lab)
    history.maintain(next(job for job in jobs.ALL if job.name == "binpack"))
    with pytest.raises(Exception, match=r"(?i)no such file|NotFound|cannot open"):
        history.maintain(Job("faulty", deletes_a_needed_file, History.same_rows))
