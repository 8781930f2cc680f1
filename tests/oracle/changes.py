"""What happens to a table's schema, partitions, order, refs and version in a history; each tells what it did, or ""."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import load_catalog

from tests.oracle import values
from tests.oracle.lab import BUCKET, NAMESPACE

if TYPE_CHECKING:
    from tests.oracle.histories import History


def add_column(history: "History") -> str:
    name = f"n{len(history.story)}"
    kind = history.rng.choice(values.PLAIN)
    history.lab.ask(history.table, "changeSchema", changes=[["add", name, kind]])
    return f"{name} {kind}"


def drop_column(history: "History") -> str:
    chosen = _column(history)
    if chosen is None or _in_use(history, chosen["id"]):
        return ""
    if history.rng.random() < 0.5:
        history.lab.ask(history.table, "changeSchema", changes=[["drop", chosen["name"]]])
        return str(chosen["name"])
    table = load_catalog("frazil", type="rest", uri=history.lab.iceberg, warehouse=BUCKET).load_table(
        f"{NAMESPACE}.{history.table}"
    )
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(chosen["name"])
    return f"{chosen['name']} by PyIceberg"


def rename_column(history: "History") -> str:
    chosen = _column(history)
    if chosen is None:
        return ""
    # Now and then the name of a column that is gone: it must not be taken for it.
    gone = sorted(_names_ever(history) - {field["name"] for field in history.target.fields})
    new = history.rng.choice(gone) if gone and history.rng.random() < 0.5 else f"r{len(history.story)}"
    history.lab.ask(history.table, "changeSchema", changes=[["rename", chosen["name"], new]])
    return f"{chosen['name']} to {new}"


def promote_column(history: "History") -> str:
    wider = [field for field in history.target.fields if str(field["type"]) in values.PROMOTIONS]
    if not wider:
        return ""
    chosen = history.rng.choice(wider)
    new = values.PROMOTIONS[str(chosen["type"])]
    history.lab.ask(history.table, "changeSchema", changes=[["promote", chosen["name"], new]])
    return f"{chosen['name']} to {new}"


def move_column(history: "History") -> str:
    chosen = history.rng.choice(history.target.fields)
    history.lab.ask(history.table, "changeSchema", changes=[["first", chosen["name"]]])
    return str(chosen["name"])


def change_spec(history: "History") -> str:
    metadata = history.version.metadata
    remove = [field["name"] for field in metadata.spec()["fields"] if field["transform"] != "void"]
    add: list[list[Any]] = []
    if not remove or history.rng.random() < 0.5:
        at = history.version.metadata.schema()["fields"]
        moment = next(field["name"] for field in at if field["id"] == 2)
        add = [
            history.rng.choice(
                (["bucket", history.key, 4], ["identity", history.key], ["year", moment], ["month", moment])
            )
        ]
    history.lab.ask(history.table, "changeSpec", remove=remove, add=add)
    return f"without {remove}, with {add}"


def change_order(history: "History") -> str:
    plain = [field["name"] for field in history.target.fields if isinstance(field["type"], str)]
    columns = history.rng.sample(plain, min(len(plain), history.rng.randint(1, 2)))
    history.lab.ask(history.table, "changeOrder", columns=columns)
    return ", ".join(columns)


def make_ref(history: "History") -> str:
    snapshots = history.version.snapshots
    if not snapshots:
        return ""
    how = history.rng.choice(("branch", "tag"))
    name, place = f"{how}{len(history.story)}", history.rng.randrange(len(snapshots))
    history.lab.ask(history.table, "changeRefs", how=how, name=name, snapshot=snapshots[place])
    return f"{how} {name} at {place}"


def write_to_branch(history: "History") -> str:
    branches = _branches(history)
    if not branches:
        return ""
    name = history.rng.choice(branches)
    target = history.target
    how = history.rng.choice(("append", "upsert", "position"))
    if how == "append" or history.version.metadata.format_version < 2:
        history.lab.ask(history.table, "write", rows=target.rows(), how="append", branch=name)
    elif how == "upsert":
        history.lab.ask(history.table, "upsert", rows=target.rows(6), key=[history.key], branch=name)
    else:
        more = {"seed": history.rng.randrange(10**6), "share": 0.3, "per": "file"}
        history.lab.ask(history.table, "deletePositions", rows=[], branch=name, **more)
    return f"{how} on {name}"


def forward(history: "History") -> str:
    """main moves to a branch that is ahead of it."""
    for name in _branches(history):
        if history.version.heads.get("main") in _ancestors(history, history.version.heads[name]):
            history.lab.ask(history.table, "changeRefs", how="forward", name=name)
            return name
    return ""


def roll_back(history: "History") -> str:
    head = history.version.heads.get("main")
    older = [] if head is None else _ancestors(history, head)[1:]
    if not older:
        return ""
    place = history.rng.randrange(len(older))
    history.lab.ask(history.table, "changeRefs", how="rollback", snapshot=older[place])
    return f"{place + 1} back"


def set_head(history: "History") -> str:
    snapshots = history.version.snapshots
    if not snapshots:
        return ""
    place = history.rng.randrange(len(snapshots))
    history.lab.ask(history.table, "changeRefs", how="set", snapshot=snapshots[place])
    return f"to {place}"


def cherry_pick(history: "History") -> str:
    """An append that main does not have, on main."""
    head = history.version.heads.get("main")
    if head is None:
        return ""
    mine = set(_ancestors(history, head))
    others = [
        one["snapshot-id"]
        for one in history.version.document["snapshots"]
        if one["snapshot-id"] not in mine and one.get("summary", {}).get("operation") == "append"
    ]
    picked = {
        one.get("summary", {}).get("source-snapshot-id") for one in history.version.document["snapshots"]
    }
    others = [one for one in others if str(one) not in picked]
    if not others:
        return ""
    history.lab.ask(history.table, "changeRefs", how="pick", snapshot=others[0])
    return "one"


def rewrite_manifests(history: "History") -> str:
    if "main" not in history.version.heads:
        return ""
    history.lab.ask(history.table, "rewriteManifests")
    return "by Java"


def expire(history: "History") -> str:
    if "main" not in history.version.heads:
        return ""
    history.lab.ask(history.table, "expire", keep=3)
    return "by Java"


def upgrade(history: "History") -> str:
    version = history.version.metadata.format_version
    if version >= 3 or history.rng.random() < 0.5:
        return ""
    history.lab.commit(history.table, {"action": "upgrade-format-version", "format-version": version + 1})
    return f"to {version + 1}"


CHANGES: dict[str, Callable[["History"], str]] = {
    "add column": add_column,
    "drop column": drop_column,
    "rename column": rename_column,
    "promote column": promote_column,
    "move column": move_column,
    "change spec": change_spec,
    "change order": change_order,
    "make ref": make_ref,
    "make a ref": make_ref,
    "write to branch": write_to_branch,
    "write to a branch": write_to_branch,
    "fast-forward": forward,
    "roll back": roll_back,
    "set head": set_head,
    "cherry-pick": cherry_pick,
    "rewrite manifests": rewrite_manifests,
    "expire": expire,
    "upgrade": upgrade,
}


def _column(history: "History") -> Any:
    """One that is neither the key nor the time."""
    free = [field for field in history.target.fields if field["id"] not in (1, 2)]
    return history.rng.choice(free) if len(free) > 1 else None


def _in_use(history: "History", column: int) -> bool:
    """Whether a spec or an order is by the column."""
    metadata = history.version.metadata
    orders = metadata.document.get("sort-orders", ())
    fields = [field for one in (*metadata.partition_specs, *orders) for field in one["fields"]]
    return any(field.get("source-id") == column for field in fields)


def _names_ever(history: "History") -> set[str]:
    return {field["name"] for schema in history.version.document["schemas"] for field in schema["fields"]}


def _branches(history: "History") -> list[str]:
    refs = history.version.document.get("refs", {})
    return sorted(name for name, ref in refs.items() if ref["type"] == "branch" and name != "main")


def _ancestors(history: "History", snapshot: int) -> list[int]:
    parents = {
        one["snapshot-id"]: one.get("parent-snapshot-id") for one in history.version.document["snapshots"]
    }
    found: list[int] = []
    at: int | None = snapshot
    while at is not None and at in parents:
        found.append(at)
        at = parents[at]
    return found
