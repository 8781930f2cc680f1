"""Maintenance jobs: ask for one, plan one, look at them, cancel, try again; how maintenance stands on a table."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from catalog_server.api.management import wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    InNamespace,
    MaybeNamespace,
    OnePage,
    OnPlatform,
    TableName,
)
from catalog_server.services.jobs import OPEN, JobFilter, JobState, JobView, KindStatus
from maintenance.backlog import Behind
from maintenance.schedule import NextRun
from table_format.errors import NotFound
from table_format.ident import TableIdent

router = APIRouter(tags=["jobs"])

JobId = Annotated[int, Path(ge=1, le=2**63 - 1)]
_LAST_MS = 2**53 - 1  # what JSON and JavaScript keep exactly


def _time(name: str, when: str) -> Any:
    description = f"Only jobs made {when}, in milliseconds since 1970."
    return Query(alias=f"{name}Ms", ge=0, le=_LAST_MS, description=description)


@router.post("/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/jobs", status_code=202)
async def request_job(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    wanted: wire.JobRequest,
) -> wire.Job:
    """Queue one maintenance run; an equal job that is queued already is answered instead of a second one."""
    ident = TableIdent(namespace, table)
    return _job(await platform.jobs.request(principal, bucket, ident, wanted.kind, dry_run=wanted.dry_run))


@router.post(
    "/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/maintenance/plan",
    responses={202: {"model": wire.MaintenancePlan, "description": "Not made yet: ask again for the same."}},
)
async def plan_job(
    response: Response,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    wanted: wire.PlanRequest,
) -> wire.MaintenancePlan:
    """What a run would do now, file by file. Changes nothing and leaves no job; a worker makes it meanwhile."""
    wait_seconds = platform.settings.maintenance.plan_wait_seconds
    ident = TableIdent(namespace, table)
    job = await platform.jobs.plan(principal, bucket, ident, wanted.kind, wait_seconds=wait_seconds)
    report = job.report or {}
    outcome, reason = str(report.get("outcome", "failed")), job.error or str(report.get("reason", ""))
    if job.state in OPEN:
        response.status_code = 202
        waits = job.state is JobState.QUEUED
        outcome = "pending"
        reason = "no maintenance worker took it yet" if waits else "a maintenance worker is at it"
    return wire.MaintenancePlan(
        job=job.id,
        kind=job.kind,
        outcome=outcome,
        reason=reason,
        figures=report.get("figures", {}),
        plan=job.plan,
    )


@router.get("/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/maintenance")
async def maintenance_status(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
) -> wire.TableMaintenance:
    """How each kind of maintenance stands on a table: its last run, its next one, and why then; whether it keeps up."""
    ident = TableIdent(namespace, table)
    found = await platform.jobs.status(principal, bucket, ident)
    behind = await platform.backlogs.of(principal, bucket, ident)
    return wire.TableMaintenance(kinds=[_kind(status) for status in found], behind=_behind(behind))


@router.get("/v1/jobs")
async def list_jobs(  # noqa: PLR0913 - each is one filter
    *,
    platform: OnPlatform,
    principal: By,
    page: OnePage,
    namespace: MaybeNamespace,
    bucket: Annotated[str | None, Query()] = None,
    table: Annotated[str | None, Query(description="Name of a table; give bucket and namespace too.")] = None,
    kind: Annotated[str | None, Query()] = None,
    state: Annotated[
        list[str] | None,
        Query(description="queued, running, done, failed or cancelled; may be given several times"),
    ] = None,
    origin: Annotated[
        str | None, Query(description="api (a person), commit, maintenance (the clock), drop or plan")
    ] = None,
    dry_run: Annotated[bool | None, Query(alias="dryRun")] = None,
    since: Annotated[int | None, _time("since", "at this moment or later")] = None,
    until: Annotated[int | None, _time("until", "before this moment")] = None,
) -> wire.Jobs:
    """Jobs, newest first, without their plans."""
    wanted = JobFilter(
        bucket=bucket,
        namespace=namespace,
        table=table,
        kind=kind,
        states=state,
        origin=origin,
        dry_run=dry_run,
        since_ms=since,
        until_ms=until,
    )
    found = await platform.jobs.list(principal, wanted, page)
    return wire.Jobs(jobs=[_job(view, listed=True) for view in found.items], next_page_token=found.next_token)


@router.get("/v1/jobs/{job}")
async def get_job(platform: OnPlatform, principal: By, job: JobId) -> wire.JobDetails:
    """One job with its plan, its report, and the next run of its kind on its table."""
    view = await platform.jobs.get(principal, job)
    try:
        upcoming = await platform.jobs.next_run(principal, view)
    except NotFound:
        upcoming = None  # the table's metadata is gone: the job is all the more of interest
    return wire.JobDetails(**dict(_job(view)), next_run=None if upcoming is None else _next_run(upcoming))


@router.post("/v1/jobs/{job}/cancel")
async def cancel_job(platform: OnPlatform, principal: By, job: JobId) -> wire.Job:
    """Cancel a job: at once while it is queued; at its next safe step while it runs, and nothing is half-done."""
    return _job(await platform.jobs.cancel(principal, job))


@router.post("/v1/jobs/{job}/retry", status_code=202)
async def retry_job(platform: OnPlatform, principal: By, job: JobId) -> wire.Job:
    """Queue a failed or cancelled job again, with fresh attempts; what it had saved of its plan goes on."""
    return _job(await platform.jobs.retry(principal, job))


def _kind(status: KindStatus) -> wire.KindStatus:
    return wire.KindStatus(
        kind=status.kind.value,
        enabled=status.disabled_reason is None,
        disabled_reason=status.disabled_reason,
        result=status.result.value,
        reason=status.reason,
        last_run=None if status.last is None else _job(status.last, listed=True),
        open_job=None if status.open is None else _job(status.open, listed=True),
        next_run=_next_run(status.next),
    )


def _behind(found: Behind | None) -> wire.Behind | None:
    if found is None:
        return None
    return wire.Behind(reason=found.reason, data_files=found.data_files, delete_files=found.delete_files)


def _next_run(upcoming: NextRun) -> wire.NextRun:
    return wire.NextRun(at_ms=upcoming.at_ms, why=upcoming.why.value, reason=upcoming.reason)


def _lease(view: JobView) -> wire.Lease | None:
    if view.state is not JobState.RUNNING or view.lease_owner is None or view.lease_until_ms is None:
        return None
    return wire.Lease(worker=view.lease_owner, until_ms=view.lease_until_ms)


def _job(view: JobView, *, listed: bool = False) -> wire.Job:
    return wire.Job(
        lease=_lease(view),
        cancel_requested_at_ms=view.cancel_requested_at_ms,
        failures=[
            wire.Failure(attempt=one["attempt"], at_ms=one["atMs"], worker=one["worker"], error=one["error"])
            for one in view.failures
        ],
        id=view.id,
        kind=view.kind,
        state=view.state,
        bucket=view.bucket,
        namespace=None if view.namespace is None else list(view.namespace.levels),
        table=view.table,
        dry_run=view.dry_run,
        origin=view.origin,
        attempts=view.attempts,
        max_attempts=view.max_attempts,
        created_at_ms=view.created_at_ms,
        run_after_ms=view.run_after_ms,
        started_at_ms=view.started_at_ms,
        finished_at_ms=view.finished_at_ms,
        plan=None if listed else view.plan,
        report=view.report,
        error=view.error,
    )
