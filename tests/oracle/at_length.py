"""Histories at length: `python -m tests.oracle.at_length`, which `make test-oracle` calls.

ORACLE_HISTORIES of them (100) from the seed ORACLE_FIRST on (the time of day), or ORACLE_SEED alone, in
ORACLE_PROCESSES (2) at once; ORACLE_ENGINES="spark flink" lets Spark and Flink take part.
Ends with the seeds that failed, and what happened.
"""

import logging
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import structlog

from tests.java.driver import iceberg_java
from tests.oracle.histories import Engine, run, seeds
from tests.oracle.lab import Lab, opened

_AT_A_TIME = 10
"""Histories in one catalog; then its files go."""


def _engines(lab: Lab, place: Path, stack: ExitStack) -> list[Engine]:
    found = []
    for name in os.environ.get("ORACLE_ENGINES", "").replace(",", " ").split():
        if name == "spark":
            from tests.oracle.spark import engine as spark

            found.append(spark.engine(stack.enter_context(spark.running(lab, place / "spark"))))
        elif name == "flink":
            from tests.oracle.flink import engine as flink

            found.append(flink.engine(stack.enter_context(flink.running(lab, place / "flink"))))
        else:
            raise SystemExit(f"ORACLE_ENGINES names {name}: spark and flink are known")
    return found


def _play(block: range) -> tuple[Counter[str], list[str]]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    happened: Counter[str] = Counter()
    failures = []
    with tempfile.TemporaryDirectory(prefix="oracle-") as place, ExitStack() as stack:
        directory = Path(place)
        java = stack.enter_context(iceberg_java(directory / "java.log"))
        lab = stack.enter_context(opened(directory / "server", java))
        engines = _engines(lab, directory, stack)
        for seed in block:
            try:
                happened += run(lab, seed, engines)
            except AssertionError as error:
                failures.append(str(error))
                print(f"FAILED {error}\n", flush=True)
            else:
                print(f"seed {seed} holds", flush=True)
    return happened, failures


def main() -> int:
    os.environ.setdefault("ORACLE_FIRST", str(int(time.time())))
    wanted = seeds(100)
    print(f"ORACLE_FIRST={wanted.start} ORACLE_HISTORIES={len(wanted)}", flush=True)
    blocks = [wanted[first : first + _AT_A_TIME] for first in range(0, len(wanted), _AT_A_TIME)]
    happened: Counter[str] = Counter()
    failures: list[str] = []
    processes = min(int(os.environ.get("ORACLE_PROCESSES", "2")), len(blocks))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(_play, block) for block in blocks]):
            counts, failed = done.result()
            happened += counts
            failures += failed
    for what, times in sorted(happened.items()):
        print(f"{times:8} {what}")
    print(f"{happened['histories']} histories held, {len(failures)} failed")
    for failure in failures:
        print(failure.partition("\n")[0][:300])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
