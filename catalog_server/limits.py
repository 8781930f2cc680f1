"""The settings that bound requests, memory and reports, and those of storage and maintenance."""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from maintenance.executors.kinds import ExecutorKind


class Group(BaseModel):
    """One group of settings: values that never change, and none that is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class LimitSettings(Group):
    """Bounds on requests and memory."""

    max_body_mb: int = Field(32, ge=1, description="Largest request body in MiB.")
    max_body_values: int = Field(
        1_000_000, ge=1_000, description="Most values (members, elements) in the JSON of one request body."
    )
    max_metadata_mb: int = Field(
        512, ge=1, description="Largest table metadata file that is read or written, in MiB."
    )
    max_register_mb: int = Field(
        64,
        ge=1,
        description="Largest metadata file that is registered, in MiB, before and after decompression.",
    )
    max_register_values: int = Field(
        4_000_000, ge=1_000, description="Most values in the JSON of a metadata file that is registered."
    )
    max_columns: int = Field(
        10_000, ge=1, description="Most columns of one schema, those inside of others counted."
    )
    max_properties: int = Field(10_000, ge=1, description="Most properties of one table, view or namespace.")
    max_text_kb: int = Field(
        2_048, ge=1, description="Longest property, column comment or view text, in KiB of UTF-8."
    )
    document_cache_mb: int = Field(
        64, ge=0, description="Memory for table metadata kept between requests, in MiB."
    )
    commit_attempts: int = Field(
        4, ge=1, description="How often a commit that lost the race is tried again before answering 409."
    )
    commit_queue: int = Field(
        256, ge=1, description="Commits that may wait for one table; beyond that they are answered 503."
    )
    turn_wait_seconds: float = Field(
        3.0,
        ge=0,
        le=30,
        description="Longest that a load waits for its client's turn to commit, on a table with conflicting commits; "
        "0: nobody waits.",
    )
    idempotency_minutes: int = Field(
        30,
        ge=1,
        le=44_640,
        description="How long a client may repeat a request with its Idempotency-Key (told in /v1/config).",
    )

    @property
    def max_body_bytes(self) -> int:
        """`max_body_mb` in bytes."""
        return self.max_body_mb << 20

    @property
    def max_register_bytes(self) -> int:
        """`max_register_mb` in bytes, never above `max_metadata_bytes`: what is registered will be read again."""
        return min(self.max_register_mb << 20, self.max_metadata_bytes)

    @property
    def max_text_bytes(self) -> int:
        """`max_text_kb` in bytes."""
        return self.max_text_kb << 10

    @property
    def max_metadata_bytes(self) -> int:
        """`max_metadata_mb` in bytes."""
        return self.max_metadata_mb << 20

    @property
    def document_cache_bytes(self) -> int:
        """`document_cache_mb` in bytes."""
        return self.document_cache_mb << 20


class ReportSettings(Group):
    """Metrics reports that clients send after scans and commits."""

    per_table: int = Field(
        1000, ge=0, le=1_000_000, description="Newest metrics reports kept of each table; 0 keeps none."
    )
    days: int = Field(7, ge=1, le=3650, description="How long metrics reports are kept.")
    max_kb: int = Field(64, ge=1, le=1024, description="Largest metrics report in KiB.")


_CREDENTIALS_NAME = re.compile(r"[a-z0-9_-]{1,64}")


class StorageSettings(Group):
    """Where tables lie."""

    default_bucket: str = Field(
        "default", description="Table bucket made at the first start, and used when a client names none."
    )
    default_bucket_location: str = Field(
        "",
        description="Location of the default bucket when it is made; empty: warehouse in the data directory.",
    )
    buckets_location: str = Field(
        "",
        description="Place below which buckets lie that are created without a location; "
        "empty: buckets in the data directory.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Properties of the object stores (endpoint, region, credentials) of all buckets, "
        "over which a bucket can have its own.",
    )
    credentials: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        repr=False,
        description="Properties by a name that buckets refer to, NAME -> properties; never stored, shown or logged.",
    )

    @field_validator("credentials")
    @classmethod
    def _names(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for name in value:
            if not _CREDENTIALS_NAME.fullmatch(name):
                raise ValueError("names of credentials are of a-z, 0-9, - and _, at most 64")
        return value


class MaintenanceSettings(Group):
    """Built-in maintenance of the tables."""

    enabled: bool = Field(True, description="Whether `serve` runs a maintenance worker beside the API.")
    allow_unsafe: bool = Field(
        False,
        description="Allow policies below the safety floors (ages in seconds); for demonstrations and tests.",
    )
    tick_seconds: float = Field(30.0, gt=0, description="How often the scheduler looks for due jobs.")
    poll_seconds: float = Field(1.0, gt=0, description="How often an idle worker looks for a job.")
    lease_seconds: float = Field(
        60.0, gt=0, description="How long a job belongs to a worker that sends no heartbeat."
    )
    max_attempts: int = Field(5, ge=1, description="How often a failing job is tried.")
    concurrency: int = Field(1, ge=1, le=64, description="Jobs that one worker runs at the same time.")
    executor: ExecutorKind = Field(
        ExecutorKind.PROCESS,
        description="What rewrites groups of files: `process` (processes beside the worker), `ray` (a Ray cluster; "
        "extra `ray`) or `inline` (the worker itself, one group after the other, without a cap on memory).",
    )
    group_processes: int = Field(
        0,
        ge=0,
        le=1024,
        description="Groups that one worker has rewritten side by side, for all its jobs; 0 is one for each core.",
    )
    group_memory_mb: int = Field(
        1024,
        ge=256,
        description="The most memory that the process which rewrites a group may take; a group that takes more fails.",
    )
    memory_mb: int = Field(
        0,
        ge=0,
        description="The most memory of all groups that one worker has rewritten side by side: as many run as "
        "`maintenance.group_memory_mb` fits into it, at least one; 0 is no limit.",
    )
    total_memory_mb: int = Field(
        0,
        ge=0,
        description="The same for all workers together, shared evenly by the jobs that run; 0 is no limit.",
    )
    mb_per_second: float = Field(
        0,
        ge=0,
        description="MiB a second that one worker's jobs read and write together as they rewrite files; 0 is no limit.",
    )
    total_mb_per_second: float = Field(
        0,
        ge=0,
        description="The same for all workers together, shared evenly by the jobs that run; 0 is no limit.",
    )
    bucket_mb_per_second: float = Field(
        0,
        ge=0,
        description="The same for the jobs on the tables of one bucket; 0 is no limit.",
    )
    ray_address: str = Field(
        "",
        description="Where the Ray cluster is, as `ray.init` takes it; empty starts one on the worker's machine.",
    )
    total_concurrency: int = Field(
        0, ge=0, description="Jobs that all workers together run at the same time; 0 is no limit."
    )
    bucket_concurrency: int = Field(
        0,
        ge=0,
        description="Jobs that run at the same time on the tables of one bucket; 0 is no limit.",
    )
    history_days: int = Field(
        30,
        ge=1,
        le=36_500,
        description="How long jobs that ended are kept; the last of each kind and table stays longer.",
    )
    plan_wait_seconds: float = Field(
        20.0,
        gt=0,
        description="How long a request for a maintenance plan waits for the plan before it answers 202.",
    )
