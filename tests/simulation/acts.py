"""What clients of a world do: writes to main and to branches, transactions, requests for jobs, the life of tables."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_server.services.principals import SYSTEM
from catalog_server.services.tables import TableSpec
from maintenance.ports import JobKind
from table_format.catalog import LoadedTable
from table_format.commit.change import MAIN, Change, assert_ref
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NotFound,
    TableFormatError,
    Unavailable,
)
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from tests.simulation.actors import BUCKET, SimIds
from tests.simulation.clients import Client, Order
from tests.simulation.oracle import MARK, Effect

if TYPE_CHECKING:
    from tests.simulation.world import World

Act: TypeAlias = "Callable[[World, Client], None]"

NAMES = ("x", "y")
BRANCHES = ("b0", "b1")
OLD_DAYS = 31
DAY_MS = 86_400_000
_MOST_COLUMNS = 6
SCHEMA: JsonObject = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "version", "required": False, "type": "long"},
        {"id": 4, "name": "at", "required": False, "type": "timestamptz"},
    ],
}
BY_NAME: JsonObject = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}],
}


def spec(partitioned: bool = False, **properties: str) -> TableSpec:
    """A table of these worlds."""
    return TableSpec(
        schema=SCHEMA,
        partition_spec=BY_NAME if partitioned else None,
        properties={"write.metadata.previous-versions-max": "2", **properties},
    )


def with_answer(call: Callable[[], Any]) -> None:
    """Do it; whatever a client may be answered is all right."""
    try:
        call()
    except (Unavailable, CommitFailed, CommitStateUnknown, NotFound):
        return
    except TableFormatError as error:
        if error.kind.value not in ("already_exists", "conflict", "requirement_failed", "invalid"):
            raise


# writes


def effect(world: "World", uuid: str, how: str) -> Effect | None:
    """An operation of that kind that makes sense on the table as it is."""
    rng, oracle = world.sim.rng, world.oracle
    rows = sorted(oracle.histories[uuid].rows())
    version = world.next_version
    world.next_version += 10
    if how in ("position", "copy"):
        return Effect(drop_rows=frozenset({rng.choice(rows)})) if rows else None
    old = rng.random() < 0.2 or how == "mixed"
    time = world.sim.now_ms() - (OLD_DAYS * DAY_MS if old else 0)
    ids = rng.sample(range(6), {"upsert": 1, "mixed": 3}.get(how) or rng.randint(1, 3))
    add = frozenset((i, rng.choice(NAMES), version + n) for n, i in enumerate(ids))
    for number, row in enumerate(sorted(add)):
        oracle.times[row[2]] = world.sim.now_ms() if how == "mixed" and number == 0 else time
    if how == "upsert":
        return Effect(add=add, drop_ids=frozenset(ids))
    return Effect(add=add, offset=version if how == "ingest" else None)


def ordered(world: "World", uuid: str, how: str, branch: str | None = None) -> Order | None:
    """An operation, known to the oracle; None when there is nothing to do."""
    wanted = effect(world, uuid, how)
    if wanted is None:
        return None
    world.ops += 1
    order = Order(
        op=f"{how}-{world.ops}",
        how="append" if how in ("ingest", "mixed") else how,
        effect=wanted,
        branch=branch,
    )
    world.oracle.effects[order.op] = wanted
    return order


def settled(world: "World", orders: list[tuple[str, Order]], send: Callable[[], bool]) -> None:
    """Send it, and note what its client is told of these operations."""
    told = [(uuid, order.op) for uuid, order in orders]
    try:
        done = send()
    except CommitStateUnknown:
        world.outcomes["unknown"] += 1
    except (Unavailable, CommitFailed, NotFound, Invalid) as error:
        if isinstance(error, Invalid) and not _ahead(world, error):
            raise
        world.outcomes[f"refused: {type(error).__name__}"] += 1
        world.refused += told
    else:
        world.outcomes["acked" if done else "nothing to do"] += 1
        if done:
            world.acked += told


def _ahead(world: "World", error: Invalid) -> bool:
    """Whether the server refused it because the client's clock is more than a minute ahead of its own."""
    return world.sim.odds.skew_ms > 0 and "more than a minute after this server's time" in error.message


def write(ident: TableIdent, how: str) -> Act:
    """One write to main."""

    def act(world: "World", client: Client) -> None:
        uuid = _uuid(client, ident)
        order = None if uuid is None else ordered(world, uuid, how)
        if uuid is not None and order is not None:
            settled(world, [(uuid, order)], lambda: client.write(ident, uuid, order))

    return act


def write_to_branch(ident: TableIdent, how: str) -> Act:
    """One write to a branch, which is made if it is not there."""

    def act(world: "World", client: Client) -> None:
        name = world.sim.rng.choice(BRANCHES)
        try:
            table = client.catalog.load(ident)
            if name not in table.metadata.refs:
                _point(client, table, name, None, table.metadata.current_snapshot_id)
        except (NotFound, Unavailable, CommitFailed, CommitStateUnknown, Invalid):
            return  # Invalid: the head expired meanwhile
        uuid = str(table.metadata.uuid)
        order = ordered(world, uuid, how, name)
        if order is not None:
            world.outcomes["to a branch"] += 1
            settled(world, [(uuid, order)], lambda: client.write(ident, uuid, order))

    return act


def write_together(idents: tuple[TableIdent, ...]) -> Act:
    """Appends to several tables in one transaction, whose key says what became of it."""

    def act(world: "World", client: Client) -> None:
        uuids = [_uuid(client, ident) for ident in idents]
        orders = [(uuid, ordered(world, uuid, "append")) for uuid in uuids if uuid is not None]
        known = [(uuid, order) for uuid, order in orders if order is not None]
        if len(known) < len(idents):
            return
        parts = [(uuid, order.op) for uuid, order in known]
        for _, order in known:
            world.oracle.transactions[order.op] = parts

        def send() -> bool:
            named = [(ident, uuid, order) for ident, (uuid, order) in zip(idents, known, strict=True)]
            client.together(named, key(client.ids))
            world.outcomes["transactions"] += 1
            return True

        settled(world, known, send)

    return act


def set_mark(ident: TableIdent) -> Act:
    """Set a property, whatever it is: a request that nothing but its key keeps from having its effect twice."""

    def act(world: "World", client: Client) -> None:
        world.ops += 1
        updates: list[JsonObject] = [{"action": "set-properties", "updates": {MARK: f"mark-{world.ops}"}}]
        change = Change(updates=updates, requirements=[])
        with_answer(lambda: client.catalog.transaction([(ident, change)], key(client.ids)))

    return act


def key(ids: SimIds) -> str:
    """An Idempotency-Key: a UUID of version 7."""
    drawn = ids.uuid()
    return f"{drawn[:14]}7{drawn[15:]}"


def _uuid(client: Client, ident: TableIdent) -> str | None:
    try:
        return str(client.catalog.load(ident).metadata.uuid)
    except (NotFound, Unavailable):
        return None


# refs


def _point(client: Client, table: LoadedTable, name: str, at: int | None, to: int | None) -> None:
    """Move a branch, or make it."""
    if to is not None:
        client.catalog.commit(
            table.ident,
            [assert_ref(name, at), {"type": "assert-table-uuid", "uuid": table.metadata.uuid}],
            [{"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": to}],
        )


def _ancestry(table: LoadedTable, head: int | None) -> list[int]:
    snapshots = {s["snapshot-id"]: s for s in table.metadata.snapshots}
    chain = []
    while head in snapshots:
        chain.append(head)
        head = snapshots[head].get("parent-snapshot-id")
    return chain


def roll_back(ident: TableIdent) -> Act:
    """Roll main back to an ancestor."""

    def act(world: "World", client: Client) -> None:
        def roll() -> None:
            table = client.catalog.load(ident)
            chain = _ancestry(table, table.metadata.current_snapshot_id)
            if len(chain) > 1:
                to = world.sim.rng.choice(chain[1:3])
                world.oracle.histories[str(table.metadata.uuid)].rolled_back = True
                _point(client, table, MAIN, chain[0], to)

        with_answer(roll)

    return act


def fast_forward(ident: TableIdent) -> Act:
    """Move main to the head of a branch that is ahead of it."""

    def act(world: "World", client: Client) -> None:
        def move() -> None:
            table = client.catalog.load(ident)
            main = table.metadata.current_snapshot_id
            heads = [ref["snapshot-id"] for name, ref in table.metadata.refs.items() if name in BRANCHES]
            ahead = [head for head in heads if main in _ancestry(table, head)[1:]]
            if ahead:
                _point(client, table, MAIN, main, world.sim.rng.choice(ahead))
                world.outcomes["fast-forwarded"] += 1

        with_answer(move)

    return act


def publish(ident: TableIdent) -> Act:
    """Write to a branch, audit, and let main follow."""
    steps = (write_to_branch(ident, "upsert"), fast_forward(ident))

    def act(world: "World", client: Client) -> None:
        for step in steps:
            step(world, client)

    return act


def drop_branch(ident: TableIdent) -> Act:
    """Drop a branch, and with it what no other needs."""

    def act(world: "World", client: Client) -> None:
        def drop() -> None:
            table = client.catalog.load(ident)
            found = [name for name in BRANCHES if name in table.metadata.refs]
            if found:
                name = world.sim.rng.choice(found)
                world.oracle.histories[str(table.metadata.uuid)].dropped_refs.add(name)
                client.catalog.commit(
                    ident,
                    [assert_ref(name, table.metadata.refs[name]["snapshot-id"])],
                    [{"action": "remove-snapshot-ref", "ref-name": name}],
                )

        with_answer(drop)

    return act


def tag(ident: TableIdent, name: str) -> Act:
    """Tag some snapshot, maybe one that is just expiring."""

    def act(world: "World", client: Client) -> None:
        def mark() -> None:
            table = client.catalog.load(ident)
            if not table.metadata.snapshots:
                return
            at = world.sim.rng.choice(table.metadata.snapshots)["snapshot-id"]
            client.catalog.commit(
                ident,
                [assert_ref(name, None)],
                [{"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": at}],
            )

        with_answer(mark)

    return act


# the table itself


def upgrade(ident: TableIdent) -> Act:
    """Make it format version 3."""

    def act(_: "World", client: Client) -> None:
        updates: list[JsonObject] = [{"action": "upgrade-format-version", "format-version": 3}]
        with_answer(lambda: client.catalog.commit(ident, [], updates))

    return act


def evolve(ident: TableIdent) -> Act:
    """Give it a column; the schema before is needed by nobody who knows only the newest."""

    def act(_: "World", client: Client) -> None:
        def add() -> None:
            table = client.catalog.load(ident)
            fields, last = table.metadata.schema()["fields"], table.metadata.document["last-column-id"]
            if len(fields) == _MOST_COLUMNS:
                return
            column = {"id": last + 1, "name": f"c{last + 1}", "required": False, "type": "string"}
            schema = {"type": "struct", "fields": [*fields, column]}
            client.catalog.commit(
                ident,
                [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": last}],
                [
                    {"action": "add-schema", "schema": schema, "last-column-id": last + 1},
                    {"action": "set-current-schema", "schema-id": -1},
                ],
            )

        with_answer(add)

    return act


def request(ident: TableIdent, kind: JobKind) -> Act:
    """Somebody asks for a job."""

    def act(_: "World", client: Client) -> None:
        with_answer(
            lambda: client.catalog.ask(
                f"request {kind.value}",
                lambda server: server.jobs.request(SYSTEM, BUCKET, ident, kind.value, dry_run=False),
            )
        )

    return act


def life(what: str, ident: TableIdent, other: TableIdent) -> Act:
    """Drop, purge, restore, rename, make another of the name."""

    def act(world: "World", client: Client) -> None:
        ask = client.catalog.ask
        if what == "rename":
            with_answer(lambda: ask(what, lambda s: s.tables.rename(SYSTEM, BUCKET, ident, other)))
        elif what == "drop":
            with_answer(lambda: ask(what, lambda s: s.tables.drop(SYSTEM, BUCKET, ident)))
        elif what == "purge":
            with_answer(lambda: ask(what, lambda s: s.tables.purge(SYSTEM, BUCKET, ident)))
        elif what == "undrop":
            sql = "SELECT resource_id FROM dropped_tables ORDER BY table_id"
            found = world.shared.raw.execute(sql).fetchall()
            if found:
                resource = world.sim.rng.choice(found)[0]
                with_answer(lambda: ask(what, lambda s: s.drops.undrop(SYSTEM, BUCKET, resource)))
        elif what == "create":
            with_answer(lambda: ask(what, lambda s: s.tables.create(SYSTEM, BUCKET, ident, spec())))

    return act
