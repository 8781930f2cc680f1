"""Rows of maintenance policies per scope, and the record of every change to them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from catalog_server.store.schema import policies, policy_changes
from table_format.errors import NotFound, VersionConflict
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A policy document at one scope; the version grows by one at each change."""

    scope: str
    scope_id: int
    policy_type: str
    document: JsonObject
    version: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKey:
    """Which policy, and who changes it at what time."""

    scope: str
    scope_id: int
    policy_type: str
    principal: str
    now_ms: int


def most_at_once(connection: Connection) -> dict[tuple[int, str], int]:
    """By (bucket id, policy type): how many jobs of that kind a bucket's policy lets run at the same time."""
    found = connection.execute(
        select(policies.c.scope_id, policies.c.policy_type, policies.c.document).where(
            policies.c.scope == "bucket"
        )
    )
    limits = {
        (row.scope_id, row.policy_type): (row.document.get("settings") or {}).get("maxConcurrentJobs")
        for row in found
    }
    return {key: most for key, most in limits.items() if most is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One change of a policy: what it was (None: not set) and became (None: taken away), by whom and when."""

    id: int
    policy_type: str
    before: JsonObject | None
    after: JsonObject | None
    principal: str
    at_ms: int


def find(connection: Connection, scope: str, scope_id: int, policy_type: str) -> PolicyRow | None:
    """The policy, or None."""
    row = connection.execute(
        select(policies).where(
            policies.c.scope == scope,
            policies.c.scope_id == scope_id,
            policies.c.policy_type == policy_type,
        )
    ).first()
    return None if row is None else _policy(row)


def at_scope(connection: Connection, scope: str, scope_id: int) -> list[PolicyRow]:
    """All policies of a scope, by type."""
    rows = connection.execute(
        select(policies)
        .where(policies.c.scope == scope, policies.c.scope_id == scope_id)
        .order_by(policies.c.policy_type)
    )
    return [_policy(row) for row in rows]


def everywhere(connection: Connection) -> list[PolicyRow]:
    """All policies."""
    return [_policy(row) for row in connection.execute(select(policies))]


def changes(
    connection: Connection,
    place: tuple[str, int],
    policy_type: str | None,
    before_id: int | None,
    limit: int | None,
) -> list[ChangeRow]:
    """Changes at a (scope, scope_id), the newest first: of one policy type or all, those before a change."""
    wanted = [policy_changes.c.scope == place[0], policy_changes.c.scope_id == place[1]]
    if policy_type is not None:
        wanted.append(policy_changes.c.policy_type == policy_type)
    if before_id is not None:
        wanted.append(policy_changes.c.id < before_id)
    found = connection.execute(
        select(policy_changes).where(*wanted).order_by(policy_changes.c.id.desc()).limit(limit)
    )
    return [
        ChangeRow(
            id=row.id,
            policy_type=row.policy_type,
            before=row.before,
            after=row.after,
            principal=row.principal,
            at_ms=row.at_ms,
        )
        for row in found
    ]


def put(connection: Connection, key: PolicyKey, document: JsonObject, if_version: int | None) -> PolicyRow:
    """Set a policy and record the change; setting what is there already changes nothing.

    Raises:
        VersionConflict: the policy is not of the version the caller knows (0: not there).
    """
    before = find(connection, key.scope, key.scope_id, key.policy_type)
    _same_version(before, if_version)
    if before is None:
        connection.execute(
            insert(policies).values(
                scope=key.scope,
                scope_id=key.scope_id,
                policy_type=key.policy_type,
                document=document,
                version=_last_version(connection, key) + 1,
                updated_at_ms=key.now_ms,
            )
        )
    elif before.document == document:
        return before
    else:
        connection.execute(
            update(policies)
            .where(_is(key))
            .values(document=document, version=policies.c.version + 1, updated_at_ms=key.now_ms)
        )
    _record(connection, key, before, document)
    after = find(connection, key.scope, key.scope_id, key.policy_type)
    if after is None:
        raise NotFound(f"policy {key.policy_type} vanished while it was set")
    return after


def remove(connection: Connection, key: PolicyKey, if_version: int | None) -> None:
    """Delete a policy and record the change.

    Raises:
        NotFound: there is none.
        VersionConflict: the policy is not of the version the caller knows.
    """
    before = find(connection, key.scope, key.scope_id, key.policy_type)
    if before is None:
        raise NotFound(f"No policy {key.policy_type} is set at this {key.scope}")
    _same_version(before, if_version)
    connection.execute(delete(policies).where(_is(key)))
    _record(connection, key, before, None)


def _same_version(row: PolicyRow | None, if_version: int | None) -> None:
    version = 0 if row is None else row.version
    if if_version is not None and if_version != version:
        raise VersionConflict(
            f"The policy changed: it is at version {version}, not {if_version}; read it again and retry"
        )


def _last_version(connection: Connection, key: PolicyKey) -> int:
    """How often this policy was changed before, so that a version never names two contents."""
    changes = connection.execute(
        select(policy_changes.c.id).where(
            policy_changes.c.scope == key.scope,
            policy_changes.c.scope_id == key.scope_id,
            policy_changes.c.policy_type == key.policy_type,
        )
    )
    return len(changes.all())


def _record(
    connection: Connection, key: PolicyKey, before: PolicyRow | None, after: JsonObject | None
) -> None:
    connection.execute(
        insert(policy_changes).values(
            scope=key.scope,
            scope_id=key.scope_id,
            policy_type=key.policy_type,
            before=None if before is None else before.document,
            after=after,
            principal=key.principal,
            at_ms=key.now_ms,
        )
    )


def _is(key: PolicyKey) -> Any:
    return (
        (policies.c.scope == key.scope)
        & (policies.c.scope_id == key.scope_id)
        & (policies.c.policy_type == key.policy_type)
    )


def _policy(row: Row[Any]) -> PolicyRow:
    return PolicyRow(
        scope=row.scope,
        scope_id=row.scope_id,
        policy_type=row.policy_type,
        document=row.document,
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
