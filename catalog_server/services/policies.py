"""Maintenance policies on buckets, namespaces and tables: set, read, what is in force and why, and who changed what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services import paging
from catalog_server.services.documents import DocumentCache
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, namespaces, pointers, table_entries, tables
from catalog_server.store import policies as rows
from catalog_server.store.engine import Database
from catalog_server.store.keys import lineage, namespace_of
from catalog_server.store.policies import ChangeRow, PolicyKey, PolicyRow
from catalog_server.store.table_entries import TableEntry
from catalog_server.store.tables import TableRow
from maintenance import policies as rules
from maintenance.compaction.layout import Strategy, why_not_sorted
from maintenance.policies import CompactionPolicy, Policy, PolicyType
from maintenance.records.plan import column_of
from maintenance.setting_rules import BUCKETS_ONLY
from maintenance.statistics.plan import why_not_counted
from table_format.clock import Clock
from table_format.errors import Invalid, NotFound
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject
from table_format.schema.types import children

_SORTING = (Strategy.SORT.value, Strategy.Z_ORDER.value)


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
    """What is in force at a scope: every setting there is, each value with the level it comes from.

    A value of None is none: nobody gives one, or the same setting in another unit is in force.
    """

    policy_type: str
    enabled: bool
    settings: JsonObject
    sources: dict[str, str]
    disabled_reason: str | None
    """Why it does not run as things are: switched off, or forbidden by the table."""
    notes: tuple[str, ...]
    """Table properties, and settings below a safety floor, that were not taken as they are written."""


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
            Invalid: the document is wrong, or can not hold at that scope.
            VersionConflict: the policy is not of version `if_version`.
            NotFound: there is no such scope.
        """
        kind = rules.policy_type(policy_type)
        checked = rules.validate(policy_type, document, allow_unsafe=self._allow_unsafe)
        await self._check_fits(scope, kind, checked)
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

    async def history(
        self,
        principal: Principal,
        scope: PolicyScope,
        policy_type: str | None,
        page: paging.PageRequest | None,
    ) -> paging.Page[ChangeRow]:
        """Changes of the policies at exactly that scope, the newest first; a policy type of None: of all.

        Raises:
            Invalid: the page request or the policy type is wrong.
            NotFound: there is no such scope.
        """
        kind = None if policy_type is None else rules.policy_type(policy_type).value

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[ChangeRow]:
            if after is not None and not paging.is_number(after[0]):
                raise Invalid("pageToken is not one that this listing gave")
            return await self._database.read(
                _history, scope, kind, None if after is None else int(after[0]), limit
            )

        return await paging.paged(page, "policy-changes", fetch, lambda row: (str(row.id),))

    async def effective(
        self, principal: Principal, bucket: str, ident: TableIdent
    ) -> Sequence[EffectivePolicy]:
        """What is in force for a table, for every type of policy.

        Raises:
            NoSuchTable: there is no such table.
        """
        scope = PolicyScope(bucket=bucket, namespace=ident.namespace, table=ident.name)
        return await self.effective_at(principal, scope)

    async def effective_at(self, principal: Principal, scope: PolicyScope) -> Sequence[EffectivePolicy]:
        """What is in force at a scope, for every type of policy; of a table with what its properties say.

        Raises:
            NotFound: there is no such scope.
        """
        layers, properties = await self._surroundings(scope)
        return [self._explained(kind, layers, properties) for kind in PolicyType]

    async def in_force(self, row: TableRow, kind: PolicyType) -> Policy:
        """The policy of one type in force for a table."""
        properties = (await self._documents.load(row.metadata_location)).metadata.properties
        layers = [(at.name, at.of(kind)) for at in await self._layers(row)]
        explained = rules.explain(kind.value, layers, properties, allow_unsafe=self._allow_unsafe)
        return rules.in_force(kind.value, explained, properties)

    def _explained(
        self, kind: PolicyType, layers: Sequence["NamedLayer"], properties: Mapping[str, str]
    ) -> EffectivePolicy:
        named = [(layer.name, layer.of(kind)) for layer in layers]
        explained = rules.explain(kind.value, named, properties, allow_unsafe=self._allow_unsafe)
        every = rules.complete(kind.value, explained)
        return EffectivePolicy(
            policy_type=kind.value,
            enabled=explained.value("status") == "enabled",
            settings={name: sourced.value for name, sourced in every.items() if name != "status"},
            sources={name: sourced.source for name, sourced in every.items()},
            disabled_reason=rules.in_force(kind.value, explained, properties).disabled_reason,
            notes=explained.notes,
        )

    async def _surroundings(self, scope: PolicyScope) -> tuple[Sequence["NamedLayer"], Mapping[str, str]]:
        """The documents that reach a scope, the widest level first, and the table's properties."""
        if scope.table is None or scope.namespace is None:
            return await self._database.read(_layers_above, scope), {}
        entry = await self._database.read(_entry, scope.bucket, TableIdent(scope.namespace, scope.table))
        properties: Mapping[str, str] = {}
        if entry.metadata_location is not None:
            properties = (await self._documents.load(entry.metadata_location)).metadata.properties
        return await self._layers(entry), properties

    async def _layers(self, row: TableRow | TableEntry) -> Sequence["NamedLayer"]:
        layers = await self._database.hot(pointers.policy_layers(row))
        names = ["bucket", *_namespace_names(row.ident.namespace), "table"]
        return [NamedLayer(name, layer.documents) for name, layer in zip(names, layers, strict=True)]

    async def _check_fits(self, scope: PolicyScope, kind: PolicyType, document: JsonObject) -> None:
        """Refuse what could never act there, while whoever sets it is there to hear why."""
        too_wide = sorted(BUCKETS_ONLY.intersection(document["settings"]))
        if too_wide and scope.namespace is not None:
            raise Invalid(
                f"setting {too_wide[0]} is about all tables of a bucket together: set it at the bucket"
            )
        if scope.table is None or scope.namespace is None or document.get("status") == "disabled":
            return
        sorts = document["settings"].get("strategy") in _SORTING or "sortOrder" in document["settings"]
        if kind is PolicyType.COMPACTION and sorts:
            await self._check_sortable(scope, TableIdent(scope.namespace, scope.table), document)
        if kind is PolicyType.STATISTICS and "columns" in document["settings"]:
            await self._check_countable(scope, TableIdent(scope.namespace, scope.table), document)
        if kind is not PolicyType.RECORDS:
            return
        row = await self._database.read(_table, scope.bucket, TableIdent(scope.namespace, scope.table))
        metadata = (await self._documents.load(row.metadata_location)).metadata
        column = document["settings"].get("column")
        if column is None:
            layers, _ = await self._surroundings(scope)
            above = rules.explain(kind.value, [(at.name, at.of(kind)) for at in layers[:-1]], {})
            column = above.value("column")
        column_of(metadata, None if column is None else str(column))

    async def _check_countable(self, scope: PolicyScope, ident: TableIdent, document: JsonObject) -> None:
        row = await self._database.read(_table, scope.bucket, ident)
        metadata = (await self._documents.load(row.metadata_location)).metadata
        columns = {view.name: view for view in children(metadata.schema(), None)}
        for name in document["settings"]["columns"]:
            reason = why_not_counted(columns.get(name))
            if reason is not None:
                raise Invalid(
                    f"column {name[:80]!r} {reason}: name top-level columns of plain values in setting columns"
                )

    async def _check_sortable(self, scope: PolicyScope, ident: TableIdent, document: JsonObject) -> None:
        entry = await self._database.read(_entry, scope.bucket, ident)
        above, _ = await self._surroundings(scope)
        kind = PolicyType.COMPACTION.value
        layers = [*(layer.of(PolicyType.COMPACTION) for layer in above[:-1]), document]
        policy = rules.effective(kind, layers, {})
        if not isinstance(policy, CompactionPolicy) or policy.strategy == Strategy.BINPACK:
            return
        if entry.metadata_location is None:
            reason: str | None = "the table has no metadata yet, and so no sort order"
        else:
            metadata = (await self._documents.load(entry.metadata_location)).metadata
            reason = why_not_sorted(metadata, policy.sort_order)
        if reason is not None:
            by = "the policy's" if policy.sort_order else "the table's"
            raise Invalid(
                f"strategy {policy.strategy} sorts by {by} sort order: {reason}; give the table a sort order first, "
                "name other columns in sortOrder, or use binpack"
            )


@dataclass(frozen=True, slots=True)
class NamedLayer:
    """The policy documents set at one level, by policy type, and what that level is called."""

    name: str
    documents: Mapping[str, JsonObject]

    def of(self, kind: PolicyType) -> JsonObject:
        """The document of one type; empty when none is set."""
        return self.documents.get(kind.value, {})


def _namespace_names(namespace: Namespace) -> list[str]:
    return [f"namespace {'.'.join(namespace_of(key).levels)}" for key in lineage(namespace)]


def _layers_above(connection: Connection, scope: PolicyScope) -> Sequence[NamedLayer]:
    owner = buckets.require(connection, scope.bucket)
    levels = [("bucket", "bucket", owner.id)]
    if scope.namespace is not None:
        namespaces.require(connection, owner.id, scope.namespace)
        names = _namespace_names(scope.namespace)
        for name, key in zip(names, lineage(scope.namespace), strict=True):
            level = namespaces.require(connection, owner.id, namespace_of(key))
            levels.append((name, "namespace", level.id))
    return [
        NamedLayer(name, {row.policy_type: row.document for row in rows.at_scope(connection, kind, scope_id)})
        for name, kind, scope_id in levels
    ]


def _locate(connection: Connection, scope: PolicyScope) -> tuple[str, int]:
    owner = buckets.require(connection, scope.bucket)
    if scope.namespace is None:
        return "bucket", owner.id
    if scope.table is None:
        return "namespace", namespaces.require(connection, owner.id, scope.namespace).id
    ident = TableIdent(scope.namespace, scope.table)
    return "table", table_entries.require(connection, owner.id, ident).id


def _get(connection: Connection, scope: PolicyScope, kind: PolicyType) -> PolicyRow:
    level, scope_id = _locate(connection, scope)
    found = rows.find(connection, level, scope_id, kind.value)
    if found is None:
        raise NotFound(f"No policy {kind.value} is set at this {level}; those above it or the defaults hold")
    return found


def _list(connection: Connection, scope: PolicyScope) -> Sequence[PolicyRow]:
    return rows.at_scope(connection, *_locate(connection, scope))


def _history(
    connection: Connection, scope: PolicyScope, kind: str | None, before: int | None, limit: int | None
) -> Sequence[ChangeRow]:
    return rows.changes(connection, _locate(connection, scope), kind, before, limit)


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


def _entry(connection: Connection, bucket: str, ident: TableIdent) -> TableEntry:
    return table_entries.require(connection, buckets.require(connection, bucket).id, ident)


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
