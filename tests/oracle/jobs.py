"""Every kind of maintenance on a history's table, with drawn settings, and what it may do to main's rows."""

import datetime
import json
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maintenance.ports import JobKind, JobSettings
from tests.oracle.lab import BUCKET, NAMESPACE, aged, path_of
from tests.oracle.readers import Found

if TYPE_CHECKING:
    from tests.oracle.histories import History

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Job:
    """A job, and how main's head before and after it are compared."""

    name: str
    run: Callable[["History"], str]
    """What it reported."""
    check: Callable[["History", Found, Found], None]
    after: tuple[tuple[str, str], ...] = ()
    """Writes before it, so that it has something to do."""


def _same(history: "History", old: Found, new: Found) -> None:
    history.same_rows(old, new)


def _told(report: Any) -> str:
    figures = {
        key: report["figures"][key]
        for key in ("filesRewritten", "groupsCopied", "rowsDeleted", "deleteFilesRemoved")
        if key in report["figures"]
    }
    return f"{report['outcome']}: {report['reason'][:160]} {figures or ''}"


def _compact(history: "History", limits: JobSettings | None = None, **settings: Any) -> str:
    asked = {"minInputFiles": 2, "deleteFileThreshold": 1, **settings}
    report = history.lab.job(history.table, JobKind.COMPACTION, asked, limits)
    for what in ("groupsCopied", "deleteFilesRemoved", "rowsDeleted"):
        history.counts[what] += int(report["figures"].get(what, 0))
    return _told(report)


def binpack(history: "History") -> str:
    batch = history.rng.choice((1, 2, 16))
    return _compact(history, JobSettings(groups_per_commit=batch), strategy="binpack", copyRowGroups=False)


def copied(history: "History") -> str:
    """Row groups as they are, however small."""
    return _compact(history, JobSettings(min_copied_row_group_bytes=1), strategy="binpack")


def _by_columns(history: "History", strategy: str, most: int) -> str:
    plain = [field["name"] for field in history.target.fields if isinstance(field["type"], str)]
    columns = history.rng.sample(plain, min(len(plain), most))
    order = [{"column": name, "direction": history.rng.choice(("asc", "desc"))} for name in columns]
    if strategy == "z-order":
        order = [{"column": name} for name in columns]
    return _compact(history, strategy=strategy, sortOrder=order)


def sort(history: "History") -> str:
    return _by_columns(history, "sort", 2)


def z_order(history: "History") -> str:
    return _by_columns(history, "z-order", 3)


def auto(history: "History") -> str:
    return _compact(history, strategy="auto")


def deletes_alone(history: "History") -> str:
    """Too few files to be merged; only their deletes are stored anew."""
    return _compact(history, minInputFiles=10_000, deleteFileThreshold=1000, deleteRatio=1)


def manifests(history: "History") -> str:
    asked = {"minManifests": 2}
    return _told(history.lab.job(history.table, JobKind.MANIFESTS, asked))


def records(history: "History") -> str:
    column = next(field["name"] for field in history.target.fields if field["id"] == 2)
    days = history.rng.choice((30, 200, 400))
    history.expired_days = days
    return _told(history.lab.job(history.table, JobKind.RECORDS, {"days": days, "column": column}))


def _only_old_went(history: "History", old: Found, new: Found) -> None:
    """Nothing came, nothing changed, and what went was old enough."""
    schema = history.version.metadata.schema()
    place = [field["id"] for field in schema["fields"]].index(2)
    kind = schema["fields"][place]["type"]
    went, came = Counter(old.plain) - Counter(new.plain), Counter(new.plain) - Counter(old.plain)
    assert not came, f"rows came or changed: {list(came)[:3]}"
    limit = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=history.expired_days)
    units = (
        (limit - _EPOCH).days if kind == "date" else (limit - _EPOCH) // datetime.timedelta(microseconds=1)
    )
    for row in went:
        value = row[place]
        assert value is not None, f"a row without a time went: {row}"
        assert int(value) <= units, f"a row went too early: {row}"
    history.counts["rows expired"] += sum(went.values())


def snapshots(history: "History") -> str:
    asked = {
        "minSnapshotsToKeep": history.rng.choice((1, 2, 4)),
        "maxSnapshotAgeSeconds": 0,
        "cleanExpiredMetadata": history.rng.random() < 0.5,
        "metadataVersionsToKeep": 1,
        "deleteOldMetadata": history.rng.random() < 0.5,
    }
    before = len(history.version.snapshots)
    told = _told(history.lab.job(history.table, JobKind.SNAPSHOTS, asked))
    history.counts["snapshots expired"] += before - len(history.lab.version(history.table).snapshots)
    return told


def unreferenced(history: "History") -> str:
    """A stray goes with both phases; nothing else that is needed does, however old."""
    location = path_of(history.version.metadata.location)
    stray = location / "data" / "stray.parquet"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"x")
    aged(stray)
    report = history.lab.remove_unreferenced(history.table)
    assert not stray.exists(), f"the stray is still there: {report}"
    return _told(report)


def purge_beside(history: "History") -> str:
    """A table beside this one is dropped with its files; one that would share files can not even be registered."""
    lab = history.lab
    base = f"/iceberg/v1/{BUCKET}/namespaces/{NAMESPACE}"
    if history.rng.random() < 0.3:
        other = {
            "table-uuid": str(uuid.UUID(int=history.rng.getrandbits(128))),
            "location": f"{history.version.metadata.location}-{len(history.story)}",
        }
        twin = path_of(other["location"]) / "metadata" / f"00000-{other['table-uuid']}.metadata.json"
        twin.parent.mkdir(parents=True)
        twin.write_text(json.dumps({**history.version.document, **other}))
        answer = lab.http.post(
            f"{base}/register", json={"name": "twin", "metadata-location": f"file://{twin}"}
        )
        assert answer.status_code == 409, answer.text
        return f"refused: {answer.json()['error']['message'][:160]}"
    name = lab.create({"schema": {"type": "struct", "fields": history.target.fields}})
    lab.ask(name, "write", rows=history.target.rows(), how="append")
    lab.http.delete(f"{base}/tables/{name}?purgeRequested=true").raise_for_status()
    found = lab.http.get("/api/v1/jobs", params={"kind": str(JobKind.PURGE), "state": "queued"}).json()
    (job,) = [one["id"] for one in found["jobs"] if one["table"] == name]
    return _told(lab.finish(job, JobKind.PURGE)["report"])


def _by_default(kind: JobKind) -> Job:
    """A kind with nothing of its own here: it may change no row."""
    return Job(str(kind), lambda history: _told(history.lab.job(history.table, kind, {})), _same)


_KNOWN = {
    JobKind.COMPACTION,
    JobKind.MANIFESTS,
    JobKind.RECORDS,
    JobKind.SNAPSHOTS,
    JobKind.UNREFERENCED,
    JobKind.PURGE,
}
ALL: tuple[Job, ...] = (
    Job("binpack", binpack, _same),
    Job("copy", copied, _same),
    Job("sort", sort, _same),
    Job("z-order", z_order, _same),
    Job("auto", auto, _same),
    Job("deletes alone", deletes_alone, _same, after=2 * (("java", "delete by position"),)),
    Job("manifests", manifests, _same),
    Job("records", records, _only_old_went),
    Job("snapshots", snapshots, _same),
    Job("unreferenced", unreferenced, _same),
    Job("purge of another", purge_beside, _same),
    *(_by_default(kind) for kind in JobKind if kind not in _KNOWN),
)
