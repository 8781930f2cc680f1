"""One history for each seed: a table, what many writers do to it, and jobs of maintenance in between.

After every commit its snapshot is read by Java, DuckDB and us, who must agree. After every job everything is read
again: each snapshot that is left, and each branch's and tag's head, must hold what it held before, row for row, with
the same row ids and last changes where the table has them.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from table_format.jsontypes import JsonObject
from tests.oracle import changes, jobs, readers, values, writers
from tests.oracle.lab import Lab, Version
from tests.oracle.readers import Found

STEPS = 10
_SHARE_OF_WRITES, _SHARE_OF_CHANGES = 0.6, 0.2


@dataclass(frozen=True)
class Engine:
    """One more engine that writes in histories, and reads at their end before all jobs and after them."""

    name: str
    writes: dict[str, writers.Step]
    read: Callable[[str, Version, int], Found] | None
    """Of a table, as of a version, a snapshot."""
    unknown_types: frozenset[str] = frozenset()
    identified: bool = False
    """Whether it upserts by the table's identifier, which tables then have; it partitions by no other column."""


class Wrong(AssertionError):
    """What a reader finds is not what must be there."""


@dataclass
class History:
    """A table, and what its snapshots hold."""

    lab: Lab
    seed: int
    rng: random.Random
    engines: Sequence[Engine] = ()
    table: str = ""
    version: Version = field(init=False)
    key: str = "id"
    formats: tuple[str, ...] = ("parquet",)
    null_keys: bool = False
    expired_days: int = 0
    """Of the last job that expired rows."""
    held: dict[int, Found] = field(default_factory=dict)
    """By snapshot."""
    story: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Create the table."""
        unknown = {kind for engine in self.engines for kind in engine.unknown_types}
        identified = any(engine.identified for engine in self.engines)
        body = _new_table(self.rng, unknown, identified=identified)
        self.table = self.lab.create(body)
        if self.rng.random() < 0.25:
            self.formats = ("parquet", "avro", "orc")
        self.null_keys = self.rng.random() < 0.3 and not identified
        self.note(f"create {body}")
        self.version = self.lab.version(self.table)

    def note(self, text: str) -> None:
        self.story.append(text)

    @property
    def target(self) -> writers.Target:
        return writers.Target(
            self.lab, self.rng, self.table, self.version.metadata, self.key, self.formats, self.null_keys
        )

    # steps

    def play(self, steps: int = STEPS) -> None:
        """The whole history, and at its end one job of every kind."""
        self.begin()
        for number in range(steps):
            roll = self.rng.random()
            if roll < _SHARE_OF_WRITES or number < 3:
                self.write()
            elif roll < _SHARE_OF_WRITES + _SHARE_OF_CHANGES:
                self.change()
            else:
                self.maintain(self.rng.choice(jobs.ALL))
        self._read_by_engines("before the jobs")
        for number, job in enumerate(self.rng.sample(jobs.ALL, len(jobs.ALL))):
            if number % 2:  # so that there is something to do
                self.write("append")
                self.write()
            self.maintain(job)
        self._read_by_engines("after the jobs")

    @property
    def writes(self) -> dict[str, dict[str, writers.Step]]:
        """By writer and name. Engines that were asked for do a good part of it."""
        return writers.WRITES | {engine.name: engine.writes for engine in self.engines}

    def write(self, name: str | None = None, writer: str | None = None) -> None:
        """One commit of rows, of that kind and by that writer where they are given."""
        names = sorted(writers.WRITES) + 3 * [engine.name for engine in self.engines]
        writer = writer or self.rng.choice(names)
        name = name or self.rng.choice(sorted(self.writes[writer]))
        step = self.writes[writer][name]
        self.note(f"{writer}: {name}")
        if (reason := writers.unfit(writer, name, self.target)) is not None:
            self.note(f"  left out: {reason}")
            self.counts["left out"] += 1
            return
        try:
            writers.attempt(writer, step, self.target)
        except writers.Refused as error:
            self.note(f"  refused: {error}")
            self.counts[f"refused: {error}"] += 1
        else:
            self.counts[f"{writer} {name}"] += 1
        before = self._twice()
        self.look()
        if twice := self._twice() - before:
            # DuckDB's updates do that; from then on its rows stay as they are.
            if writer != "duckdb":
                raise Wrong(f"{writer}'s {name} gives rows the ids of others: {sorted(twice)}")
            self.counts["DuckDB gave rows the ids of others"] += 1

    def change(self) -> None:
        """A change of anything but rows."""
        name = self.rng.choice(sorted(changes.CHANGES))
        done = changes.CHANGES[name](self)
        self.note(f"{name}: {done}")
        self.counts[name if done else f"no {name}"] += 1
        self.look()

    def maintain(self, job: jobs.Job) -> None:
        """One job; everything as before, but for what the job is for."""
        for writer, name in job.after:
            self.write(name, writer)
        before = self.version
        told = job.run(self)
        self.note(f"{job.name}: {told}")
        self.counts[f"{job.name} {told.partition(':')[0]}"] += 1
        self.version = after = self.lab.version(self.table)
        if lost := set(before.heads) - set(after.heads):
            raise Wrong(f"branches or tags are gone: {lost}")
        self._check_heads(before, after, job)
        self._read_all(after)

    # what must hold

    def _twice(self) -> set[str]:
        """Row ids that main's head has twice."""
        head = self.version.heads.get("main")
        return set() if head is None else _ids_given_twice(self.held[head])

    def look(self) -> None:
        """The table as it is now; what is new is read by everybody."""
        self.version = self.lab.version(self.table)
        new = [one for one in self.version.snapshots if one not in self.held]
        self._adopt_lineage()
        if new:
            self.held |= self._read(self.version, new)

    def _adopt_lineage(self) -> None:
        """The version from which a table has row ids: what was read without them is read again with them."""
        if self.version.metadata.format_version >= 3 and any(not f.lineage for f in self.held.values()):
            old = [one for one in self.version.snapshots if one in self.held]
            read = self._read(self.version, old)
            for one in old:
                self._same(f"snapshot {one} after the upgrade", self.held[one].plain, read[one].plain)
            self.held = read

    def _read(self, version: Version, snapshots: list[int]) -> dict[int, Found]:
        """Those snapshots by Java, compared with what the others find."""
        found = readers.by_java(self.lab, version, snapshots)
        for one in snapshots:
            ours = readers.by_us(version, one)
            self._same(f"snapshot {one}, Java beside ours", found[one].rows, ours.rows)
            self.counts["read by Java and us"] += 1
            if (reason := readers.why_not_duckdb(version, one)) is not None:
                self.counts[f"not by DuckDB: {reason}"] += 1
                continue
            duckdb = readers.by_duckdb(self.lab, version, one)
            self._same(f"snapshot {one}, Java beside DuckDB", found[one].plain, duckdb.rows)
            self.counts["read by DuckDB"] += 1
        return found

    def _read_by_engines(self, when: str) -> None:
        for engine in self.engines:
            if engine.read is None:
                continue
            for one in self.version.snapshots:
                found = engine.read(self.table, self.version, one)
                self._same(
                    f"snapshot {one} {when}, Java beside {engine.name}", self.held[one].rows, found.rows
                )
                self.counts[f"read by {engine.name}"] += 1

    def _read_all(self, version: Version) -> None:
        self.held = {one: found for one, found in self.held.items() if one in version.snapshots}
        read = self._read(version, version.snapshots)
        for one, found in self.held.items():
            self._same(f"snapshot {one} after the job", found.rows, read[one].rows)
        self.held |= read

    def _check_heads(self, before: Version, after: Version, job: jobs.Job) -> None:
        moved = [name for name, head in after.heads.items() if head != before.heads.get(name)]
        if moved not in ([], ["main"]):
            raise Wrong(f"a job moved {moved}")
        if not moved:
            return
        new = readers.by_java(self.lab, after, [after.heads["main"]])[after.heads["main"]]
        old = self.held[before.heads["main"]]
        schema = readers.schema_of(before.metadata, before.heads["main"])
        if schema["schema-id"] != before.document["current-schema-id"]:
            # A head of before the last change of the schema is read with its own; a new one has the current one.
            old = readers.restated(self.lab, before, before.heads["main"])
        job.check(self, old, new)

    def _same(self, what: str, expected: Any, found: Any) -> None:
        if expected == found:
            return
        missing = Counter(expected) - Counter(found)
        extra = Counter(found) - Counter(expected)
        raise Wrong(
            f"{what}: {len(expected)} rows, then {len(found)}\n missing {list(missing.items())[:5]}\n"
            f" extra {list(extra.items())[:5]}"
        )

    def same_rows(self, old: Found, new: Found) -> None:
        """The head holds what it held, ids and last changes included where it had some."""
        if old.lineage and all(row[-2] is not None for row in old.rows):
            self._same("main's head", old.rows, new.rows)
        else:
            self._same("main's head", old.plain, new.plain)
        if twice := _ids_given_twice(new) - _ids_given_twice(old):
            raise Wrong(f"rows that have the ids of others: {sorted(twice)}")


def _ids_given_twice(found: Found) -> set[str]:
    """DuckDB gives some itself; a job must not give any."""
    ids = Counter(row[-2] for row in found.rows if row[-2] is not None) if found.lineage else Counter()
    return {one for one, times in ids.items() if times > 1}


def _new_table(rng: random.Random, unknown: set[str], *, identified: bool) -> JsonObject:
    """The body of a request for a table: columns, partitions, order and properties drawn."""
    fields: list[JsonObject] = [
        {"id": 1, "name": "id", "required": False, "type": values.key_column(rng)},
        {"id": 2, "name": "at", "required": False, "type": rng.choice(("timestamptz", "timestamp", "date"))},
    ]
    for _ in range(rng.randint(1, 4)):
        number = 10 * len(fields)
        others = [kind for kind in values.OTHERS if kind not in unknown]
        kind: Any = rng.choice((*values.PLAIN, *values.PLAIN, *others, *values.NESTED))
        typed = kind if isinstance(kind, str) else values.nested_type(kind, number + 1)
        fields.append({"id": number, "name": f"c{len(fields)}", "required": False, "type": typed})
    version = rng.choice((1, 2, 2, 2, 3, 3))
    body: JsonObject = {
        "schema": {"type": "struct", "schema-id": 0, "fields": fields},
        "properties": {
            "format-version": str(version),
            "write.parquet.compression-codec": rng.choice(("zstd", "gzip", "snappy", "uncompressed")),
            "write.parquet.page-version": rng.choice(("v1", "v1", "v2")),
            "commit.manifest.min-count-to-merge": rng.choice(("2", "100")),
        },
    }
    if identified:
        fields[0]["required"] = True
        body["schema"]["identifier-field-ids"] = [1]
    if rng.random() < 0.5:
        transform, source = rng.choice(
            (("bucket[3]", 1), ("truncate[2]", 1), ("month", 2), ("year", 2), ("identity", 1))
        )
        if identified and source != 1:
            return body
        name = f"p_{transform.partition('[')[0]}"
        body["partition-spec"] = {
            "spec-id": 0,
            "fields": [{"source-id": source, "field-id": 1000, "name": name, "transform": transform}],
        }
    return body


def run(lab: Lab, seed: int, engines: Sequence[Engine] = ()) -> Counter[str]:
    """Play a history; what happened in it.

    Raises:
        Wrong: something does not hold; with the seed and the story.
    """
    history = History(lab, seed, random.Random(seed), engines)
    try:
        history.play()
    except Exception as error:
        story = "\n".join(history.story)
        raise Wrong(f"seed {seed}, {type(error).__name__}: {error}\nthe story:\n{story}") from error
    history.counts["histories"] += 1
    return history.counts


def seeds(default: int) -> range:
    """Which seeds to play: ORACLE_SEED alone, or ORACLE_HISTORIES of them from ORACLE_FIRST on."""
    one = os.environ.get("ORACLE_SEED")
    if one is not None:
        return range(int(one), int(one) + 1)
    first = int(os.environ.get("ORACLE_FIRST", "0"))
    return range(first, first + int(os.environ.get("ORACLE_HISTORIES", str(default))))
