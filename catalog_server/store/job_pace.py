"""How many jobs run beside each other, and what the bucket's policy allows them. Changes nothing.

Dry runs count for nothing: they rewrite no file.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from catalog_server.store.job_rows import JobState
from catalog_server.store.schema import jobs, policies
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Jobs that run, the asking one included."""

    of_all: int
    of_bucket: int
    of_kind: int
    """Of one kind on one bucket's tables."""
    of_worker: int


def running_beside(connection: Connection, bucket_id: int, kind: str, worker: str) -> Beside:
    """How many jobs run now."""
    in_bucket = jobs.c.bucket_id == bucket_id
    row = connection.execute(
        select(
            func.count(),
            _count(in_bucket),
            _count(and_(in_bucket, jobs.c.kind == kind)),
            _count(jobs.c.lease_owner == worker),
        ).where(jobs.c.state == JobState.RUNNING, ~jobs.c.dry_run)
    ).one()
    return Beside(of_all=row[0], of_bucket=row[1], of_kind=row[2], of_worker=row[3])


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def bucket_policy(connection: Connection, bucket_id: int, policy_type: str) -> JsonObject:
    """The settings of the bucket's own policy of that type."""
    document = connection.execute(
        select(policies.c.document).where(
            policies.c.scope == "bucket",
            policies.c.scope_id == bucket_id,
            policies.c.policy_type == policy_type,
        )
    ).scalar_one_or_none()
    found: JsonObject = (document or {}).get("settings") or {}
    return found
