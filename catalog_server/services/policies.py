"""Maintenance policies on buckets, namespaces and tables: set, read, and what is in force for a table and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services.documents import DocumentCache
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, pointers, tables
from catalog_server.store import policies as rows
from catalog_server.store.engine import Database
from catalog_server.store.policies import PolicyKey, PolicyRow
from catalog_server.store.tables import TableRow
from maintenance import policies as rules
from maintenance.policies import Policy, PolicyType
from table_format.clock import Clock
from table_format.errors import NotFound
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScope:
    """Where a policy hangs: on a bucket, on a namespace of it, or on a table of that."""

    bucket: str
    namespace: Namespace | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """A policy as it was set at one scope; the version names this content and never another."""

    scope: PolicyScope
    policy_type: str
    document: JsonObject
    version: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What is in force for a table, each value with the level it comes from."""

    policy_type: str
    enabled: bool
    settings: JsonObject
    sources: dict[str, str]


class PolicyService:
    """Use-cases on policies."""

    def __init__(
        self, database: Database, documents: DocumentCache, clock: Clock, *, allow_unsafe: bool
    ) -> None:
        self._database = database
        self._documents = documents
        self._clock = clock
        self._allow_unsafe = allow_unsafe

    async def get(self, principal: Principal, scope: PolicyScope, policy_type: str) -> PolicyView:
        """The policy set at exactly that scope.

        Raises:
            NotFound: none is set there, or there is no such scope.
            Invalid: there is no such policy type.
        """
        kind = rules.policy_type(policy_type)
        return _view(scope, await self._database.read(_get, scope, kind))

    async def list(self, principal: Principal, scope: PolicyScope) -> Sequence[PolicyView]:
        """All policies set at exactly that scope.

        Raises:
            NotFound: there is no such scope.
        """
        return [_view(scope, row) for row in await self._database.read(_list, scope)]

    async def put(
        self,
        principal: Principal,
        scope: PolicyScope,
        policy_type: str,
        document: JsonObject,
        *,
        if_version: int | None = None,
    ) -> PolicyView:
        """Set a policy.

        Raises:
            Invalid: the document is wrong.
            VersionConflict: the policy is not of version `if_version`.
            NotFound: there is no such scope.
        """
        kind = rules.policy_type(policy_type)
        checked = rules.validate(policy_type, document, allow_unsafe=self._allow_unsafe)
        author = (principal.name, self._clock.now_ms())
        return _view(scope, await self._database.write(_put, scope, kind, checked, author, if_version))

    async def delete(
        self, principal: Principal, scope: PolicyScope, policy_type: str, *, if_version: int | None = None
    ) -> None:
        """Take a policy away, so that those above hold again.

        Raises:
            NotFound: none is set there, or there is no such scope.
            VersionConflict: the policy is not of version `if_version`.
        """
        kind = rules.policy_type(policy_type)
        author = (principal.name, self._clock.now_ms())
        await self._database.write(_delete, scope, kind, author, if_version)

    async def effective(
        self, principal: Principal, bucket: str, ident: TableIdent
    ) -> Sequence[EffectivePolicy]:
        """What is in force for a table, for every type of policy.

        Raises:
            NoSuchTable: there is no such table.
        """
        row = await self._database.read(_table, bucket, ident)
        properties = (await self._documents.load(row.metadata_location)).metadata.properties
        layers = await self._database.hot(pointers.policy_layers(row))
        found = []
        for kind in PolicyType:
            named = [(layer.scope, layer.documents.get(kind.value, {})) for layer in layers]
            explained = rules.explain(kind.value, named, properties)
            status = explained["status"]
            values = {name: sourced.value for name, sourced in explained.items() if name != "status"}
            found.append(
                EffectivePolicy(
                    policy_type=kind.value,
                    enabled=status.value == "enabled",
                    settings=values,
                    sources={name: sourced.source for name, sourced in explained.items()},
                )
            )
        return found

    async def in_force(self, row: TableRow, kind: PolicyType) -> Policy:
        """The policy of one type in force for a table."""
        properties = (await self._documents.load(row.metadata_location)).metadata.properties
        layers = await self._database.hot(pointers.policy_layers(row))
        return rules.effective(
            kind.value, [layer.documents.get(kind.value, {}) for layer in layers], properties
        )


def _locate(connection: Connection, scope: PolicyScope) -> tuple[str, int]:
    owner = buckets.require(connection, scope.bucket)
    if scope.namespace is None:
        return "bucket", owner.id
    if scope.table is None:
        return "namespace", namespaces.require(connection, owner.id, scope.namespace).id
    ident = TableIdent(scope.namespace, scope.table)
    return "table", tables.require(connection, owner.id, ident).id


def _get(connection: Connection, scope: PolicyScope, kind: PolicyType) -> PolicyRow:
    level, scope_id = _locate(connection, scope)
    found = rows.find(connection, level, scope_id, kind.value)
    if found is None:
        raise NotFound(f"No policy {kind.value} is set at this {level}; those above it or the defaults hold")
    return found


def _list(connection: Connection, scope: PolicyScope) -> Sequence[PolicyRow]:
    return rows.at_scope(connection, *_locate(connection, scope))


def _put(
    connection: Connection,
    scope: PolicyScope,
    kind: PolicyType,
    document: JsonObject,
    author: tuple[str, int],
    if_version: int | None,
) -> PolicyRow:
    return rows.put(connection, _key(connection, scope, kind, author), document, if_version)


def _delete(
    connection: Connection,
    scope: PolicyScope,
    kind: PolicyType,
    author: tuple[str, int],
    if_version: int | None,
) -> None:
    rows.remove(connection, _key(connection, scope, kind, author), if_version)


def _key(connection: Connection, scope: PolicyScope, kind: PolicyType, author: tuple[str, int]) -> PolicyKey:
    level, scope_id = _locate(connection, scope)
    principal, now_ms = author
    return PolicyKey(
        scope=level, scope_id=scope_id, policy_type=kind.value, principal=principal, now_ms=now_ms
    )


def _table(connection: Connection, bucket: str, ident: TableIdent) -> TableRow:
    return tables.require(connection, buckets.require(connection, bucket).id, ident)


def _view(scope: PolicyScope, row: PolicyRow) -> PolicyView:
    return PolicyView(
        scope=scope,
        policy_type=row.policy_type,
        document=row.document,
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
