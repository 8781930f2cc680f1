"""Maintenance jobs: ask for one, look at them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

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
from catalog_server.services.jobs import JobFilter, JobView
from table_format.ident import TableIdent

router = APIRouter(tags=["jobs"])


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


@router.get("/v1/jobs")
async def list_jobs(  # noqa: PLR0913 - each is one filter
    *,
    platform: OnPlatform,
    principal: By,
    page: OnePage,
    namespace: MaybeNamespace,
    bucket: Annotated[str | None, Query()] = None,
    table: Annotated[str | None, Query()] = None,
    kind: Annotated[str | None, Query()] = None,
    state: Annotated[str | None, Query(description="queued, running, done or failed")] = None,
) -> wire.Jobs:
    """Jobs, newest first."""
    wanted = JobFilter(bucket=bucket, namespace=namespace, table=table, kind=kind, state=state)
    found = await platform.jobs.list(principal, wanted, page)
    return wire.Jobs(jobs=[_job(view) for view in found.items], next_page_token=found.next_token)


@router.get("/v1/jobs/{job}")
async def get_job(
    platform: OnPlatform, principal: By, job: Annotated[int, Path(ge=1, le=2**63 - 1)]
) -> wire.Job:
    """One job with its plan and report."""
    return _job(await platform.jobs.get(principal, job))


def _job(view: JobView) -> wire.Job:
    return wire.Job(
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
        plan=view.plan,
        report=view.report,
        error=view.error,
    )
