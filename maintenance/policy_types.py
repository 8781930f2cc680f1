"""What is in force for one table, kind by kind: the values that plans and jobs work with.

Made by `policies.effective`; nothing here knows of documents or levels.
"""

from dataclasses import dataclass
from typing import TypeAlias

from maintenance.quiet_hours import QuietHours
from maintenance.setting_rules import MAX_BYTES_PER_RUN, SortField, Tier


@dataclass(frozen=True, slots=True)
class Sourced:
    """A setting's value in force and where it comes from; a value of None is none that anybody or the default gives."""

    value: object
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What every kind of policy says."""

    disabled_reason: str | None
    """Why this kind of maintenance does not run; None when it does."""
    interval_seconds: int
    quiet_hours: QuietHours | None = None
    """When no run begins, unless a person asks for it."""
    dry_run: bool = False
    """Runs only plan and report."""
    max_concurrent_jobs: int | None = None
    """How many jobs of this kind run at the same time on all tables of the bucket; None: as the server allows."""
    notes: tuple[str, ...] = ()
    """What was not taken as it is written: of table properties, and of settings below a safety floor."""

    @property
    def enabled(self) -> bool:
        """Whether it runs at all."""
        return self.disabled_reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting(InForce):
    """What every kind of policy says whose jobs rewrite data files."""

    max_bytes_per_run: int = MAX_BYTES_PER_RUN
    """Input of one run."""
    max_mb_per_second: int | None = None
    """What jobs of this kind on all tables of the bucket read and write together; None: as the server allows."""
    max_memory_mb: int | None = None
    """What groups may take that such jobs have rewritten at the same time; None: as the server allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy(Rewriting):
    """What compaction does for one table."""

    target_file_size_bytes: int
    tiers: tuple[Tier, ...]
    strategy: str = "auto"
    """As the policy says it; what it comes to depends on the table."""
    sort_order: tuple[SortField, ...] = ()
    """By which files are sorted; none: by the table's own sort order."""
    min_input_files: int
    min_file_age_seconds: int
    open_partition_seconds: int = 0
    """How long after its last write the newest time partition is left alone."""
    delete_file_threshold: int = 100
    """Delete files that apply to a data file, from which it is rewritten for their sake."""
    delete_ratio: float = 0.3
    """Share of a data file's rows that is probably deleted, from which it is rewritten for its sake."""
    merge_position_deletes: bool = True
    """Whether small position delete files are merged, or turned into vectors, where their data files stay."""
    copy_row_groups: bool = True
    """Whether row groups may be copied as they are, instead of being decoded and encoded."""
    trigger_file_count: int
    trigger_bytes: int | None = None
    trigger_delete_files: int | None = None
    trigger_delete_records: int | None = None
    trigger_commits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy(InForce):
    """Which snapshots and metadata files of one table are kept."""

    min_snapshots_to_keep: int
    max_snapshot_age_ms: int
    max_ref_age_ms: int | None
    metadata_versions_to_keep: int = 100
    delete_old_metadata: bool = False
    clean_expired_metadata: bool = False
    """Whether schemas and partition specs that nothing needs any more go too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreferencedPolicy(InForce):
    """When unreferenced files of one table are marked, and when they are deleted."""

    unreferenced_seconds: int
    noncurrent_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPolicy(Rewriting):
    """When rows of one table are old enough to go, and by which column."""

    days: int
    column: str | None = None
    """None: the one column by whose time the table is partitioned."""
    row_delete_share: float
    """Part of a file's rows that must be old for it to be rewritten without them; 1: files only go whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPolicy(InForce):
    """When manifests of one table are written anew, and to which size."""

    target_size_bytes: int
    min_manifests: int
    """So many small, or overlapping, ones of a partition spec ask for it."""
    trigger_commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPolicy(InForce):
    """Which statistics of one table are computed, and when they are old enough to be computed anew."""

    ndv: bool
    """Numbers of distinct values, which costs reading the rows."""
    partition_statistics: bool
    columns: tuple[str, ...] = ()
    """Whose distinct values are counted; none named: all top-level columns of a primitive type."""
    max_columns: int
    """So many of those, where none are named."""
    min_change_ratio: float
    """Share of the table's rows that has changed since the last count, from which it is worth another."""
    trigger_commits: int | None = None


Policy: TypeAlias = (
    "CompactionPolicy | SnapshotPolicy | UnreferencedPolicy | RecordPolicy | ManifestPolicy "
    "| StatisticsPolicy"
)
