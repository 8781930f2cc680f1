"""kill -9 of the server between a change and its answer: the client repeats the request and is told what happened."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.process.servers import Server, serving, start_server

pytestmark = pytest.mark.process
HARNESS = str(Path(__file__).with_name("crash_server.py"))
KEY = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
SCHEMA = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}

Request = tuple[str, str, Any]


def base(server: Server) -> str:
    return f"{server.iceberg}/v1/default"


def prepare(server: Server) -> None:
    assert requests.post(f"{base(server)}/namespaces", json={"namespace": ["n"]}, timeout=30).ok
    body = {"name": "t", "schema": SCHEMA}
    assert requests.post(f"{base(server)}/namespaces/n/tables", json=body, timeout=30).ok


COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "after"),
    [
        ("POST", "/namespaces/n/tables/t", COMMIT, lambda told: told["metadata"]["properties"]["a"] == "1"),
        ("POST", "/namespaces/n/tables/t/unregister", None, lambda told: told["metadata-location"]),
        ("DELETE", "/namespaces/n/tables/t", None, lambda told: told is None),
        ("POST", "/namespaces", {"namespace": ["m"]}, lambda told: told["namespace"] == ["m"]),
    ],
    ids=["commit", "unregister", "drop", "create-namespace"],
)
def test_R7_load_11_killed_after_the_change_then_asked_again(
    tmp_path: Path, method: str, path: str, body: Any, after: Callable[[Any], object]
) -> None:
    trigger = tmp_path / "armed"
    env = {"FRAZIL_TEST_CRASH_POINT": "after-write-before-answer", "FRAZIL_TEST_CRASH_TRIGGER": str(trigger)}
    server = start_server(tmp_path, env=env, command=[sys.executable, HARNESS])
    try:
        prepare(server)
        trigger.touch()
        with pytest.raises(requests.ConnectionError):
            requests.request(method, base(server) + path, json=body, headers=KEY, timeout=30)
        assert server.process.wait(30) == -9
    finally:
        server.kill()
    with serving(tmp_path) as again:
        answers = [
            requests.request(method, base(again) + path, json=body, headers=KEY, timeout=30) for _ in range(2)
        ]
        assert answers[0].status_code in {200, 204}, answers[0].text
        assert after(answers[0].json() if answers[0].content else None)
        assert answers[0].content == answers[1].content
        # Without the key the same request finds its own effect: it has been carried out, and once.
        if body is not COMMIT:
            plain = requests.request(method, base(again) + path, json=body, timeout=30)
            assert plain.status_code in {404, 409}
        else:
            loaded = requests.get(base(again) + path, timeout=30).json()
            assert loaded["metadata-location"] == answers[0].json()["metadata-location"]
            assert len(loaded["metadata"]["metadata-log"]) == 1
