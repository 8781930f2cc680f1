"""A real server: its ready line, its children, its end."""

import gzip
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.process.servers import Server, frazil, run_frazil, serving, start_server

pytestmark = pytest.mark.process


def children(pid: int) -> dict[int, str]:
    """Child processes and their command lines."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError, IndexError):
                continue
            if parent == pid:
                found[int(process.name)] = command
    return found


def eventually(check: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def create_namespace(server: Server, name: str) -> None:
    answer = requests.post(f"{server.iceberg}/v1/default/namespaces", json={"namespace": [name]}, timeout=30)
    assert answer.status_code == 200, answer.text


def test_one_ready_line_and_exit_code_0_after_sigterm(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    assert requests.get(f"{server.url}/health/ready", timeout=30).json() == {"status": "ready"}
    assert requests.get(f"{server.iceberg}/v1/config", timeout=30).json()["overrides"] == {
        "prefix": "default"
    }
    assert server.terminate() == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read() == b""
    server.process.stdout.close()
    assert server.stdout == [f"ready {server.url}\n"]


def test_state_survives_a_restart_and_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create_namespace(server, "kept")
        server.kill()
    with serving(tmp_path) as server:
        assert requests.get(f"{server.iceberg}/v1/default/namespaces", timeout=30).json()["namespaces"] == [
            ["kept"]
        ]


def test_a_request_in_flight_is_finished_before_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        body = json.dumps({"namespace": ["slow"]}).encode()
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = f"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:5])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            connection.sendall(body[5:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert server.terminate() == 0


def test_maintenance_runs_beside_the_api_and_is_restarted(tmp_path: Path) -> None:
    with serving(tmp_path, maintenance=True) as server:
        eventually(lambda: len(children(server.pid)) == 1)
        (first,) = children(server.pid)
        assert " worker " in children(server.pid)[first]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: set(children(server.pid)) - {first} != set())
        (second,) = set(children(server.pid)) - {first}
        assert server.terminate() == 0
        assert not alive(second)


def test_maintenance_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, maintenance=True) as server:
        eventually(lambda: len(children(server.pid)) == 1)
        (child,) = children(server.pid)
        server.kill()
        eventually(lambda: not alive(child))


def test_several_api_processes_share_one_port_and_one_truth(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as server:
        assert len(children(server.pid)) == 2
        for number in range(20):
            create_namespace(server, f"n{number}")
            path = f"{server.iceberg}/v1/default/namespaces/n{number}"
            assert {requests.head(path, timeout=30).status_code for _ in range(5)} == {204}
        pids = set(children(server.pid))
        os.kill(min(pids), signal.SIGKILL)
        eventually(lambda: len(set(children(server.pid)) - {min(pids)}) == 2)
        assert server.terminate() == 0
        assert not any(alive(pid) for pid in pids)


def test_a_40_mb_body_and_other_nonsense_over_real_http(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create_namespace(server, "a")
        path = f"{server.iceberg}/v1/default/namespaces"
        big = b'{"namespace": ["' + b"x" * (40 << 20) + b'"]}'
        answer = requests.post(path, data=big, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)

        def chunks() -> object:
            for _ in range(40):
                yield b"x" * (1 << 20)

        answer = requests.post(path, data=chunks(), timeout=60)  # type: ignore[arg-type]
        assert answer.status_code == 413
        packed = gzip.compress(big)
        answer = requests.post(path, data=packed, headers={"Content-Encoding": "gzip"}, timeout=60)
        assert answer.status_code == 413
        answer = requests.post(path, data=b"{}", headers={"Content-Encoding": "br"}, timeout=60)
        assert answer.status_code == 415
        host, port = server.url.removeprefix("http://").split(":")
        for raw in (b"\xff\xfe", b"%ff", b"%00", b"%zz", b"a/../../..", b"[", b"\\"):
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.sendall(
                    b"GET /iceberg/v1/default/namespaces/" + raw + b" HTTP/1.1\r\nHost: x\r\n\r\n"
                )
                first = connection.recv(1000)
            assert first.startswith(b"HTTP/1.1 4"), (raw, first)
            assert b"<html" not in first.lower()
        assert requests.get(f"{server.iceberg}/v1/config", timeout=30).status_code == 200


def test_a_head_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        for start, more in ((b"GET /", b"a" * 65536), (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 8192)):
            with socket.create_connection((host, int(port)), timeout=30) as link:
                link.sendall(start)
                with pytest.raises(OSError, match=r"reset|pipe|aborted"):  # noqa: PT012
                    for _ in range(1024):
                        link.sendall(more)
        assert requests.get(f"{server.url}/health/live", timeout=30).ok


def test_a_log_that_takes_no_more_lines_stops_nothing(tmp_path: Path) -> None:
    """A full disk under the log used to end the thread that writes to the database: every change then hung."""
    (tmp_path / "serve.log").symlink_to("/dev/full")
    with serving(tmp_path, env={"FRAZIL_DATABASE__BUSY_TIMEOUT_SECONDS": "0.1"}) as server:
        namespaces = f"{server.iceberg}/v1/default/namespaces"
        with sqlite3.connect(server.data_dir / "frazil.db", isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            refused = requests.post(namespaces, json={"namespace": ["a"]}, timeout=30)
            other.execute("ROLLBACK")
        other.close()
        assert refused.status_code == 503, refused.text
        create_namespace(server, "a")


def test_32_writers_append_10_times_each_and_nothing_is_lost_or_double(tmp_path: Path) -> None:
    writers, appends = 32, 10
    with serving(tmp_path) as server:
        statuses, snapshots = append_all(server, writers, appends)
    assert set(statuses) <= {200, 409}
    assert statuses.count(200) == writers * appends
    assert len(snapshots) == writers * appends
    check_chain(snapshots, {writer * 1000 + number for writer in range(1, 33) for number in range(1, 11)})


def test_writers_on_two_api_processes_lose_nothing_either(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as server:
        statuses, snapshots = append_all(server, 8, 5)
    assert set(statuses) <= {200, 409}
    assert statuses.count(200) == 40
    check_chain(snapshots, {writer * 1000 + number for writer in range(1, 9) for number in range(1, 6)})


def test_32_writers_of_one_table_need_no_more_than_the_default_retry(tmp_path: Path) -> None:
    writers, appends = 32, 6
    with serving(tmp_path) as server:
        statuses, snapshots = append_all(server, writers, appends, wait=default_wait)
    assert statuses.count(200) == writers * appends
    check_chain(snapshots, {writer * 1000 + number for writer in range(1, 33) for number in range(1, 7)})


def default_wait(attempt: int) -> float:
    """Seconds before a further attempt, as Iceberg's clients wait by default.

    Raises:
        AssertionError: they would have given up.
    """
    assert attempt <= 4, "a commit failed for good"
    return 0.1 * 2 ** (attempt - 1) * random.uniform(1, 1.1)


def impatient_wait(attempt: int) -> float:
    return random.uniform(0, min(0.02 * 2**attempt, 1.0))


def append_all(
    server: Server, writers: int, appends: int, wait: Callable[[int], float] = impatient_wait
) -> tuple[list[int], list[dict[str, int]]]:
    """Every writer appends until its appends are in, as clients do: load, commit, on 409 load again."""
    create_namespace(server, "db")
    base = f"{server.iceberg}/v1/default/namespaces/db/tables"
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "x", "type": "long", "required": False}],
    }
    assert requests.post(base, json={"name": "t", "schema": schema}, timeout=30).status_code == 200
    statuses: list[int] = []

    def write(writer: int) -> None:
        with requests.Session() as session:
            for number in range(1, appends + 1):
                attempt = 0
                while True:
                    metadata = session.get(f"{base}/t", timeout=60).json()["metadata"]
                    answer = session.post(
                        f"{base}/t", json=append_request(metadata, writer * 1000 + number), timeout=60
                    )
                    statuses.append(answer.status_code)
                    if answer.status_code == 200:
                        break
                    attempt += 1
                    time.sleep(wait(attempt))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(1, writers + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = requests.get(f"{base}/t", timeout=60).json()["metadata"]
    return statuses, loaded["snapshots"]


def append_request(metadata: dict, snapshot_id: int) -> dict:  # type: ignore[type-arg]
    current = metadata.get("current-snapshot-id")
    current = None if current == -1 else current
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": max(metadata["last-updated-ms"], time.time_ns() // 1_000_000),
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **({} if current is None else {"parent-snapshot-id": current}),
    }
    return {
        "requirements": [
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current},
            {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        ],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }


def check_chain(snapshots: list[dict[str, int]], expected: set[int]) -> None:
    """The snapshots are exactly those expected, each the parent of the next."""
    assert {snapshot["snapshot-id"] for snapshot in snapshots} == expected
    ordered = sorted(snapshots, key=lambda snapshot: snapshot["sequence-number"])
    assert [snapshot["sequence-number"] for snapshot in ordered] == list(range(1, len(expected) + 1))
    parents = [snapshot.get("parent-snapshot-id") for snapshot in ordered]
    assert parents == [None, *(snapshot["snapshot-id"] for snapshot in ordered[:-1])]


@pytest.mark.timeout(300)
def test_commands_against_a_running_server(tmp_path: Path) -> None:
    with serving(tmp_path, maintenance=True) as server:
        create_namespace(server, "db")
        schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long", "required": False}]}
        base = f"{server.iceberg}/v1/default/namespaces/db/tables"
        assert requests.post(base, json={"name": "odd.name", "schema": schema}, timeout=30).status_code == 200
        env = {"FRAZIL_URL": server.url}

        def ok(*arguments: str) -> str:
            result = run_frazil(*arguments, env=env)
            assert result.returncode == 0, result.stderr
            return result.stdout

        assert json.loads(ok("bucket", "list", "--json"))[0]["name"] == "default"
        assert json.loads(ok("namespace", "list", "--json")) == [["db"]]
        assert json.loads(ok("table", "list", "--json"))[0]["name"] == "odd.name"
        assert 'db."odd.name"' in ok("table", "list", "db")
        shown = json.loads(ok("table", "show", 'db."odd.name"', "--json"))
        assert shown["figures"]["dataFiles"] == 0
        assert "data files" in ok("table", "show", 'db."odd.name"')
        ok("policy", "set", "compaction", "--table", 'db."odd.name"', "targetFileSizeMB=128")
        ok(
            "policy",
            "set",
            "compaction",
            "--table",
            'db."odd.name"',
            "minInputFiles=7",
            "--status",
            "enabled",
        )
        policies = {
            p["type"]: p for p in json.loads(ok("policy", "effective", "--table", 'db."odd.name"', "--json"))
        }
        compaction = policies["icebergCompaction"]
        assert compaction["settings"]["targetFileSizeMB"] == 128
        assert compaction["settings"]["minInputFiles"] == 7
        assert compaction["sources"]["minInputFiles"] == "table"
        assert "targetFileSizeMB" in ok("policy", "effective", "--table", 'db."odd.name"')
        (own,) = json.loads(ok("policy", "get", "--table", 'db."odd.name"', "--json"))
        assert own["settings"] == {"targetFileSizeMB": 128, "minInputFiles": 7}
        assert "Policies set at this table" in ok("policy", "get", "--table", 'db."odd.name"')
        told = ok("policy", "explain", "compaction", "--table", 'db."odd.name"')
        assert all(text in told for text in ("64 to 512", "not set", "maxBytesPerRun", "quietHours"))
        changes = json.loads(ok("policy", "history", "--table", 'db."odd.name"', "--json"))
        assert [change["after"]["settings"] for change in changes] == [
            {"targetFileSizeMB": 128, "minInputFiles": 7},
            {"targetFileSizeMB": 128},
        ]
        assert "not set" in ok("policy", "history", "--table", 'db."odd.name"', "--kind", "compaction")
        planned = json.loads(ok("maintenance", "plan", "compaction", 'db."odd.name"', "--json"))
        assert (planned["kind"], planned["outcome"]) == ("icebergCompaction", "nothing")
        ok("maintenance", "run", "snapshots", 'db."odd.name"')
        queued = json.loads(ok("maintenance", "run", "compaction", 'db."odd.name"', "--no-wait", "--json"))
        assert queued["state"] in {"queued", "running", "done"}
        jobs = json.loads(ok("maintenance", "jobs", "--table", 'db."odd.name"', "--json"))
        assert {job["kind"] for job in jobs} >= {"icebergCompaction", "icebergSnapshotManagement"}
        assert not any(job["dryRun"] for job in jobs)  # a plan leaves no job in the listing
        assert "icebergCompaction" in ok("maintenance", "jobs")
        ok("policy", "unset", "compaction", "--table", 'db."odd.name"')

        for arguments, code, part in (
            (("table", "show", "db.missing"), 1, "Table does not exist: db.missing"),
            (("table", "show", "nonamespace"), 2, "NAMESPACE.NAME"),
            (("policy", "set", "compaction", "targetFileSizeMB=1"), 1, "targetFileSizeMB"),
            (("policy", "set", "nonsense", "a=1"), 1, "nonsense"),
            (("policy", "set", "compaction", "novalue"), 2, "KEY=VALUE"),
            (("maintenance", "run", "nonsense", "db.t"), 1, ""),
            (("maintenance", "nonsense"), 2, ""),
        ):
            result = run_frazil(*arguments, env=env)
            assert result.returncode == code, (arguments, result.stderr)
            assert part in result.stderr
            assert "Traceback" not in result.stderr


def test_a_server_that_is_not_there_is_named() -> None:
    result = run_frazil("table", "list", "--url", "http://127.0.0.1:9")
    assert result.returncode == 1
    assert result.stderr.startswith("frazil: no frazil server answers at http://127.0.0.1:9")
    assert result.stdout == ""


def test_help_is_for_newcomers() -> None:
    for command in (
        (),
        ("serve",),
        ("worker",),
        ("table",),
        ("policy", "set"),
        ("maintenance", "run"),
        ("db",),
    ):
        result = subprocess.run(
            [*frazil(*command), "--help"], capture_output=True, text=True, timeout=60, check=False
        )
        assert result.returncode == 0
        assert "Usage:" in result.stdout
        assert "api-process" not in result.stdout
        assert "--until-stdin-ends" not in result.stdout


def test_openapi_export(tmp_path: Path) -> None:
    target = tmp_path / "management.json"
    assert run_frazil("openapi", "export", str(target)).returncode == 0
    assert target.read_text() == run_frazil("openapi", "export").stdout
    assert run_frazil("openapi", "export", str(tmp_path)).returncode == 0
    iceberg = run_frazil("openapi", "export", "--api", "iceberg").stdout
    assert (tmp_path / "iceberg.json").read_text() == iceberg
