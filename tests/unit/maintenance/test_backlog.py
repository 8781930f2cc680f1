"""When compaction counts as behind a table's writers."""

from typing import Any

import pytest

from maintenance.backlog import Behind, Served, behind
from maintenance.policies import COMPACTION, effective
from maintenance.policy_types import CompactionPolicy
from table_format.metadata.document import TableMetadata

NOW = 1_800_000_000_000
MIB = 1 << 20


def policy(status: str = "enabled", **settings: Any) -> CompactionPolicy:
    document = {"status": status, "settings": {"triggerFileCount": 10, "intervalSeconds": 3600, **settings}}
    found = effective(COMPACTION, [document], {})
    assert isinstance(found, CompactionPolicy)
    return found


def table(*summaries: dict[str, str], every_ms: int = 1000) -> TableMetadata:
    """A table whose last snapshot is of this moment, the one before of a second earlier, and so on."""
    first = NOW - every_ms * (len(summaries) - 1)
    snapshots = [
        {"snapshot-id": n + 1, "timestamp-ms": first + n * every_ms, "summary": summary}
        for n, summary in enumerate(summaries)
    ]
    return TableMetadata(
        {"format-version": 2, "snapshots": snapshots, "current-snapshot-id": len(summaries) or None}
    )


def appended(files: int, **more: str) -> dict[str, str]:
    return {"operation": "append", "added-data-files": str(files), **more}


def test_maint_E5_many_files_since_compaction_left_nothing_are_a_backlog() -> None:
    metadata = table(*[appended(10) for _ in range(10)])
    found = behind(metadata, policy(), Served(settled_ms=NOW - 60_000), NOW)
    assert found == Behind(
        reason="100 data files wait for compaction, which 10 ask for", data_files=100, delete_files=0
    )
    assert behind(metadata, policy(), Served(settled_ms=NOW - 8000), NOW) is None  # 90 since then


def test_a_rewrite_is_no_backlog() -> None:
    metadata = table({"operation": "replace", "added-data-files": "500"}, appended(1))
    assert behind(metadata, policy(), Served(settled_ms=NOW - 60_000), NOW) is None


def test_delete_files_count_by_their_own_trigger() -> None:
    metadata = table({"operation": "overwrite", "added-delete-files": "40"})
    settled = Served(settled_ms=NOW - 60_000)
    assert behind(metadata, policy(), settled, NOW) is None
    found = behind(metadata, policy(triggerDeleteFiles=4), settled, NOW)
    assert found is not None
    assert found.delete_files == 40


@pytest.mark.parametrize(("size", "is_behind"), [(MIB, True), (400 * MIB, False)])
def test_before_any_run_all_files_count_unless_they_are_large(size: int, is_behind: bool) -> None:
    totals = {"total-data-files": "100", "total-files-size": str(100 * size)}
    assert (behind(table(totals), policy(), Served(), NOW) is not None) is is_behind


def test_a_job_that_no_worker_takes_is_a_backlog() -> None:
    waits = Served(settled_ms=NOW, waiting_since_ms=NOW - 3_600_000, error="the store is away")
    assert behind(table(), policy(), waits, NOW) is None
    found = behind(table(), policy(), waits, NOW + 1000)
    assert found is not None
    assert found.reason == (
        "its job has waited 3601 s for a worker, longer than the interval between two runs; "
        "the last attempt failed: the store is away"
    )


def test_where_none_is_to_run_none_is_missed() -> None:
    metadata = table(*[appended(1000) for _ in range(10)])
    assert behind(metadata, policy("disabled"), Served(), NOW) is None


@pytest.mark.parametrize("told", ["many", "", "9" * 30, "-5", None, 7])
def test_what_no_table_can_have_counts_as_none(told: object) -> None:
    metadata = table({"operation": "append", "added-data-files": told})  # type: ignore[dict-item]
    assert behind(metadata, policy(), Served(settled_ms=NOW), NOW) is None
    assert behind(table({"total-data-files": told}), policy(), Served(), NOW) is None  # type: ignore[dict-item]
    assert behind(table(), policy(), Served(), NOW) is None
