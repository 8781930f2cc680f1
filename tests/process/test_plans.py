"""Scan plans on real servers: a large table page by page, over a restart, and over two servers at one database."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from table_format.ident import TableIdent
from table_format.rest import RestCatalog
from tests.factories.scans import PlannedLake, follow, names_of
from tests.process.servers import Server, serving, start_server

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

IDENT = TableIdent.of("db", "t")
URL = "/v1/default/namespaces/db/tables/t"


def fill(server: Server, commits: int, files: int) -> list[str]:
    lake = PlannedLake(RestCatalog(server.iceberg, "default"), IDENT)
    names = [f"f{number:06}" for number in range(commits * files)]
    for start in range(0, len(names), files):
        lake.append_named(*names[start : start + files])
    return names


def plan(server: Server, **body: Any) -> dict[str, Any]:
    answer = requests.post(f"{server.iceberg}{URL}/plan", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def fetcher(server: Server) -> Callable[[str], dict[str, Any]]:
    def fetch(token: str) -> dict[str, Any]:
        answer = requests.post(f"{server.iceberg}{URL}/tasks", json={"plan-task": token}, timeout=120)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    return fetch


def planning_processes(server: Server) -> list[int]:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"plan_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_table_of_50_000_files_comes_in_pages_each_file_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        names = fill(server, 4, 12_500)
        made = plan(server)
        assert len(made["plan-tasks"]) == 24
        assert all(len(names_of(page)) <= 2000 for page in map(fetcher(server), made["plan-tasks"][:2]))
        assert sorted(follow(made, fetcher(server))) == names


def test_pages_are_answered_after_a_restart(tmp_path: Path) -> None:
    few = {"FRAZIL_PLANNING__PAGE_FILES": "10", "FRAZIL_PLANNING__THREAD_FILES": "0"}
    with serving(tmp_path, env=few) as server:
        names = fill(server, 2, 20)
        made = plan(server)
        server.kill()
    with serving(tmp_path, env=few) as server:
        assert sorted(follow(made, fetcher(server))) == names
        again = requests.get(f"{server.iceberg}{URL}/plan/{made['plan-id']}", timeout=60).json()
        assert sorted(follow(again, fetcher(server))) == names


def test_two_api_processes_answer_for_each_others_plans(tmp_path: Path) -> None:
    few = {"FRAZIL_PLANNING__PAGE_FILES": "10", "FRAZIL_PLANNING__THREAD_FILES": "0"}
    with serving(tmp_path, "--workers", "2", env=few) as server:
        names = fill(server, 2, 20)
        # Every request is a new connection: the kernel hands them to either process.
        plans = [plan(server) for _ in range(4)]
        for made in plans:
            assert sorted(follow(made, fetcher(server))) == names


def test_a_killed_planning_process_costs_no_more_than_its_plan(tmp_path: Path) -> None:
    with serving(tmp_path, env={"FRAZIL_PLANNING__THREAD_FILES": "0"}) as server:
        names = fill(server, 1, 20)
        assert planning_processes(server) == []
        plan(server)
        (pid,) = planning_processes(server)
        os.kill(pid, signal.SIGKILL)
        assert sorted(names_of(plan(server))) == names
        assert len(planning_processes(server)) == 1


def test_planning_processes_end_with_the_server_however_it_ends(tmp_path: Path) -> None:
    for number, end in enumerate((Server.terminate, Server.kill)):
        server = start_server(tmp_path / str(number), env={"FRAZIL_PLANNING__THREAD_FILES": "0"})
        try:
            fill(server, 1, 5)
            plan(server)
            (pid,) = planning_processes(server)
            watched = os.pidfd_open(pid)
            end(server)
            _wait_for_end(watched)
        finally:
            server.kill()


def _wait_for_end(pidfd: int) -> None:
    readable, _, _ = select.select([pidfd], [], [], 60)
    os.close(pidfd)
    assert readable
