"""A server on an object store with a bad day: what was answered is there, what was refused is not, once each."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from table_format.io.resolve import store_for
from tests.process.servers import Server, serving
from tests.s3 import KEY, SECRET, S3Server
from tests.s3_faults import Fault, faulty

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

WRITERS, COMMITS = 4, 8
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


def commit(url: str, key: str, refused: list[str]) -> None:
    """Set a property; again after an answer that says it was not applied."""
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: "1"}}]}
    while True:
        answer = requests.post(url, json=body, timeout=120)
        if answer.status_code == 200:
            return
        assert answer.status_code in (409, 503), answer.text
        refused.append(answer.text)


def metadata_files(s3: S3Server, table: dict[str, Any]) -> set[str]:
    location = table["metadata"]["location"] + "/metadata"
    return {info.path for info in store_for(location, s3.properties).list(location)}


def test_commits_survive_a_store_that_fails_loses_answers_and_is_slow(s3: S3Server, tmp_path: Path) -> None:
    with faulty(s3) as proxy:
        properties = {**proxy.server.storage, "s3.retry.min-wait-ms": "1", "s3.retry.num-retries": "2"}
        environment = {
            # Keys of the surroundings are used where the settings have none.
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": f"s3://{s3.bucket()}/w",
            "FRAZIL_STORAGE__PROPERTIES": json.dumps(properties),
        }
        with serving(tmp_path, env=environment) as server:
            url, table = _table(server)
            proxy.faults += [
                fault
                for skip in range(0, 24, 6)
                for fault in (
                    Fault(kind="answer_lost", pattern=r"^PUT .*metadata\.json", skip=skip),
                    Fault(kind="slow_down", pattern=r"^PUT .*metadata\.json", skip=skip + 1, times=2),
                    Fault(kind="cut_before", pattern=r"^PUT .*metadata\.json", skip=skip + 2),
                    # As often as it is tried: the commit is refused.
                    Fault(kind="answer_lost", pattern=r"^PUT .*metadata\.json", skip=skip + 3, times=3),
                )
            ]
            refused: list[str] = []
            _write_all(url, refused)
            assert sum(fault.times for fault in proxy.faults) == 0
            now = requests.get(url, timeout=60).json()
            kept = now["metadata"]["properties"]
            assert _keys() <= set(kept)
            # One file for each commit, and each names the one before: none was lost or taken twice.
            chain = [entry["metadata-file"] for entry in now["metadata"]["metadata-log"]]
            assert len(chain) == len(set(chain)) == WRITERS * COMMITS
            assert chain[0] == table["metadata-location"]
            # The files of refused commits are gone: that they were refused is certain.
            assert metadata_files(s3, now) == {*chain, now["metadata-location"]}
    assert refused


def _table(server: Server) -> tuple[str, dict[str, Any]]:
    base = f"{server.iceberg}/v1/default/namespaces"
    requests.post(base, json={"namespace": ["n"]}, timeout=60).raise_for_status()
    body = {"name": "t", "schema": SCHEMA, "properties": {"write.metadata.previous-versions-max": "1000"}}
    made = requests.post(f"{base}/n/tables", json=body, timeout=60)
    assert made.status_code == 200, made.text
    return f"{base}/n/tables/t", made.json()


def _keys() -> set[str]:
    return {f"w{writer}-{number}" for writer in range(WRITERS) for number in range(COMMITS)}


def _write_all(url: str, refused: list[str]) -> None:
    def work(writer: int) -> None:
        for number in range(COMMITS):
            commit(url, f"w{writer}-{number}", refused)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
