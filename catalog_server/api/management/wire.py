"""The management API's documents. Names are camelCase on the wire; these models stop here."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """Camel-case names, nothing unknown, nothing coerced."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
    )


class MetricsReport(Wire):
    """What a client reported after a scan or a commit."""

    id: int
    type: str = Field(description="scan-report, commit-report, or what else a client sends.")
    received_at_ms: int
    report: dict[str, Any] = Field(description="The report as the client sent it.")


class MetricsReports(Wire):
    """A page of metrics reports, newest first."""

    reports: list[MetricsReport]
    next_page_token: str | None


class PolicyDocument(Wire):
    """A policy as it is set at one scope."""

    status: str | None = Field(None, description="enabled or disabled; null leaves it to the levels above.")
    settings: dict[str, Any] = Field(default_factory=dict)


class Policy(Wire):
    """A policy and where it is set."""

    type: str
    scope: str = Field(description="bucket, namespace or table")
    status: str | None = Field(description="Null: this level does not say.")
    settings: dict[str, Any]
    version: int
    updated_at_ms: int


class Policies(Wire):
    """All policies set at one scope."""

    policies: list[Policy]


class EffectivePolicy(Wire):
    """What holds at one scope: every setting there is, each value with where it comes from."""

    type: str
    status: str
    settings: dict[str, Any] = Field(
        description="Null where nothing gives a value, and where the same setting in another unit is in force."
    )
    sources: dict[str, str] = Field(
        description='Per setting: default, bucket, "namespace NAME", "property NAME" or table.'
    )
    disabled_reason: str | None = Field(description="Why it does not run as things are; null when it does.")
    notes: list[str] = Field(
        description="Table properties, and settings below a safety floor, that were not taken as they are written."
    )


class EffectivePolicies(Wire):
    """The policies that hold at one scope."""

    policies: list[EffectivePolicy]


class PolicyChange(Wire):
    """One change of a policy at one scope."""

    id: int
    type: str
    before: dict[str, Any] | None = Field(description="The policy before; null when none was set.")
    after: dict[str, Any] | None = Field(description="The policy since; null when it was taken away.")
    by: str
    at_ms: int


class PolicyChanges(Wire):
    """A page of changes, newest first."""

    changes: list[PolicyChange]
    next_page_token: str | None


class JobRequest(Wire):
    """Ask for one maintenance run."""

    kind: str = Field(description="A policy type, for example icebergCompaction.")
    dry_run: bool = Field(False, description="Plan and report only; change nothing.")


class PlanRequest(Wire):
    """Ask what a maintenance run would do."""

    kind: str = Field(description="A policy type, for example icebergCompaction.")


class MaintenancePlan(Wire):
    """What a run would do now, or why it would do nothing."""

    job: int = Field(description="The dry run behind it; its row is forgotten soon.")
    kind: str
    outcome: str = Field(
        description="done: the plan follows; nothing or skipped: the reason says why; failed: it could not be made; "
        "pending: it is not made yet."
    )
    reason: str
    figures: dict[str, Any] = Field(description="Files, bytes and other counts of the plan.")
    plan: dict[str, Any] | None = Field(description="The plan as a run would carry it out, file by file.")


class Lease(Wire):
    """Which worker runs a job, and until when it may without a further sign of life."""

    worker: str
    until_ms: int


class Failure(Wire):
    """An attempt that failed."""

    attempt: int
    at_ms: int
    worker: str | None
    error: str


class NextRun(Wire):
    """The next run of a kind of maintenance on a table."""

    at_ms: int | None = Field(description="Milliseconds since 1970; null when it is not known, or never.")
    why: str = Field(description="running, queued, postponed, backOff, disabled, interval, ...")
    reason: str = Field(description="The same for people.")


class Job(Wire):
    """One maintenance job."""

    id: int
    kind: str
    state: str = Field(description="queued, running, done, failed or cancelled")
    bucket: str
    namespace: list[str] | None
    table: str | None
    dry_run: bool
    origin: str
    attempts: int
    max_attempts: int
    created_at_ms: int
    run_after_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    cancel_requested_at_ms: int | None
    lease: Lease | None = Field(description="Only while it runs.")
    plan: dict[str, Any] | None = Field(description="Always null in listings.")
    report: dict[str, Any] | None
    error: str | None
    failures: list[Failure] = Field(description="The attempts that failed, the newest last.")


class JobDetails(Job):
    """One maintenance job with the next run of its kind on its table."""

    next_run: NextRun | None = Field(description="Null when the table is gone, or the kind has no policy.")


class KindStatus(Wire):
    """How one kind of maintenance stands on a table."""

    kind: str
    enabled: bool
    disabled_reason: str | None
    result: str = Field(description="Of the last run: notYetRun, successful, failed or cancelled.")
    reason: str | None = Field(description="What the last run did, why it did nothing, or why it failed.")
    last_run: Job | None
    open_job: Job | None = Field(description="The job that runs, or else the one that is queued.")
    next_run: NextRun


class Behind(Wire):
    """Compaction falls behind a table's writers."""

    reason: str
    data_files: int = Field(description="That no compaction has looked at.")
    delete_files: int


class TableMaintenance(Wire):
    """How maintenance stands on a table."""

    kinds: list[KindStatus]
    behind: Behind | None = Field(
        description="Why compaction does not keep up with the table's writers; null while it does."
    )


class Jobs(Wire):
    """A page of jobs, newest first."""

    jobs: list[Job]
    next_page_token: str | None
