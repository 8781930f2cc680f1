"""Faults of other catalogs, each made impossible here; rows with a page of their own are tested there."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from tests.api.iceberg_client import (
    SCHEMA,
    Catalog,
    Http,
    append_requirements,
    append_updates,
    assert_error,
    in_process,
    snapshot,
)

DELEGATION = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}


def test_R2_a_stale_sequence_number_is_a_conflict_in_a_transaction_too(http: Http, catalog: Catalog) -> None:
    levels, created = catalog.new_table()
    other_levels, other = catalog.new_table()
    base = catalog.commit(levels, "t", append_updates(created["metadata"], 1), []).json()["metadata"]
    stale = append_updates(base, 2)
    assert catalog.commit(levels, "t", append_updates(base, 4), []).status_code == 200
    assert_error(catalog.commit(levels, "t", stale, []), 409, "CommitFailedException")
    changes = [
        {"identifier": {"namespace": list(place), "name": "t"}, "requirements": [], "updates": updates}
        for place, updates in ((other_levels, append_updates(other["metadata"], 3)), (levels, stale))
    ]
    answer = http.post(f"{catalog.base}/transactions/commit", json={"table-changes": changes})
    assert_error(answer, 409, "CommitFailedException")
    assert http.get(catalog.table(other_levels, "t")).json()["metadata"] == other["metadata"]


def test_R10_a_schema_is_added_without_last_column_id(http: Http, catalog: Catalog) -> None:
    levels, _ = catalog.new_table()
    schema = {
        **SCHEMA,
        "fields": [*SCHEMA["fields"], {"id": 3, "name": "c", "required": False, "type": "int"}],
    }  # type: ignore[misc]
    updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    answer = catalog.commit(levels, "t", updates, [])
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["last-column-id"] == 3


def test_R11_a_name_used_again_never_gets_the_place_of_the_table_that_had_it(
    http: Http, catalog: Catalog
) -> None:
    levels, first = catalog.new_table("a")
    renamed = {
        "source": {"namespace": list(levels), "name": "a"},
        "destination": {"namespace": list(levels), "name": "b"},
    }
    assert http.post(f"{catalog.base}/tables/rename", json=renamed).status_code == 204
    places = {first["metadata"]["location"]}
    for _ in range(3):
        made = catalog.create(levels, "a")
        assert made.status_code == 200
        places.add(made.json()["metadata"]["location"])
        assert http.delete(catalog.table(levels, "a")).status_code == 204
    assert len(places) == 4
    loaded = http.get(catalog.table(levels, "b")).json()
    assert loaded["metadata"]["location"] == first["metadata"]["location"]


def test_R17_a_namespace_answers_a_location_for_its_tables(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    answer = http.get(f"{catalog.base}/namespaces/{levels[0]}").json()
    place = answer["properties"]["location"]
    assert place
    made = catalog.create(levels, "t", location=f"{place}/chosen-by-the-client").json()
    assert made["metadata"]["location"] == f"{place}/chosen-by-the-client"


def test_R31_no_credentials_are_better_than_unusable_ones(http: Http, catalog: Catalog) -> None:
    """None are vended for local files: no empty entry, no prefix without keys, no empty setting of a client."""
    levels = catalog.new_namespace()
    answers = [
        http.post(
            catalog.tables(levels), json={"name": name, "schema": SCHEMA, **more}, headers=DELEGATION
        ).json()
        for name, more in (("t", {}), ("staged", {"stage-create": True}))
    ]
    answers.append(http.get(catalog.table(levels, "t"), headers=DELEGATION).json())
    for answer in answers:
        assert answer.get("storage-credentials", "omitted") == "omitted"
        assert not [name for name, value in answer.get("config", {}).items() if not value or "key" in name]
    listed = http.get(f"{catalog.table(levels, 't')}/credentials", headers=DELEGATION)
    assert listed.json() == {"storage-credentials": []}


@pytest.mark.parametrize("mode", ["all", "refs"])
def test_load_16_every_shape_tells_where_the_metadata_lies(http: Http, catalog: Catalog, mode: str) -> None:
    levels, created = catalog.new_table()
    metadata = created["metadata"]
    for number in (1, 2, 3):
        requirements = append_requirements(metadata)
        committed = catalog.commit(levels, "t", append_updates(metadata, number), requirements).json()
        metadata = committed["metadata"]
    loaded = http.get(f"{catalog.table(levels, 't')}?snapshots={mode}").json()
    assert loaded["metadata-location"] == committed["metadata-location"]
    assert [entry["snapshot-id"] for entry in loaded["metadata"]["snapshots"]] == (
        [3] if mode == "refs" else [1, 2, 3]
    )
    assert loaded["metadata"]["metadata-log"] == metadata["metadata-log"]


def test_R46_tables_whose_paths_lie_elsewhere_are_created_and_written(http: Http, catalog: Catalog) -> None:
    levels = catalog.new_namespace()
    place = http.get(f"{catalog.base}/namespaces/{levels[0]}").json()["properties"]["location"]
    properties = {"write.data.path": f"{place}/rows", "write.metadata.path": f"{place}/papers"}
    made = catalog.create(levels, "t", properties=properties)
    assert made.status_code == 200, made.text
    assert made.json()["metadata-location"].startswith(f"{place}/papers/00000-")
    at = {"manifest-list": f"{place}/papers/snap-1.avro"}
    assert (
        catalog.commit(levels, "t", append_updates(made.json()["metadata"], 1, **at), []).status_code == 200
    )
    # These are the table's now: nobody else gets them.
    for taken in ("rows", "papers", "rows/deeper"):
        assert_error(catalog.create(levels, "u", location=f"{place}/{taken}"), 409, "AlreadyExistsException")


def test_R46_a_create_beside_the_drop_of_its_sibling_is_never_a_5xx(
    http: Http, catalog: Catalog, platform: Platform
) -> None:
    levels = catalog.new_namespace()
    place = http.get(f"{catalog.base}/namespaces/{levels[0]}").json()["properties"]["location"]

    def work(number: int) -> list[int]:
        codes = []
        for turn in range(15):
            name = f"t{(number + turn) % 3}"
            if (number + turn) % 2:
                location = {"location": f"{place}/{name}"} if turn % 2 else {}
                codes.append(catalog.create(levels, name, **location).status_code)
            else:
                codes.append(http.delete(catalog.table(levels, name)).status_code)
        return codes

    with ThreadPoolExecutor(6) as pool:
        codes = [code for answered in pool.map(work, range(6)) for code in answered]
    assert set(codes) <= {200, 204, 404, 409}
    assert {200, 204} <= set(codes)
    listed = http.get(catalog.tables(levels)).json()["identifiers"]
    for entry in listed:
        assert http.get(catalog.table(levels, entry["name"])).status_code == 200


def test_load_22_a_clock_that_is_wrong_by_90_seconds_spoils_nothing(http: Http, catalog: Catalog) -> None:
    """A snapshot's time may lie before the table's: refused clearly or taken, and later commits work either way."""
    levels, created = catalog.new_table()
    metadata: dict[str, Any] = created["metadata"]
    for number, skew in ((1, 90_000), (2, -90_000), (3, 0), (4, -30_000)):
        new = snapshot(metadata, number)
        new["timestamp-ms"] = metadata["last-updated-ms"] + skew
        updates = [
            {"action": "add-snapshot", "snapshot": new},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
        ]
        answer = catalog.commit(levels, "t", updates, append_requirements(metadata))
        if answer.status_code != 200:
            assert "timestamp" in assert_error(answer, 400, "BadRequestException").lower()
        metadata = http.get(catalog.table(levels, "t")).json()["metadata"]
    fine = catalog.commit(levels, "t", append_updates(metadata, 9), append_requirements(metadata))
    assert fine.status_code == 200, fine.text
    log = [entry["timestamp-ms"] for entry in fine.json()["metadata"]["metadata-log"]]
    assert log == sorted(log)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Http]:
    """A server that takes little at once."""
    with in_process(tmp_path, **{"limits.commit_queue": 3, "database.max_queued_writes": 2}) as (http, _):
        yield http


def test_load_4_of_200_commits_at_once_those_beyond_the_queue_are_refused_early(small: Http) -> None:
    """Whoever is refused is told when to come again, and nothing of it happened."""
    catalog = Catalog(small)
    levels, _ = catalog.new_table()

    def work(number: int) -> Any:
        updates = [{"action": "set-properties", "updates": {f"n{number}": "x"}}]
        return number, catalog.commit(levels, "t", updates, [])

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(work, range(200)))
    refused = [answer for _, answer in answers if answer.status_code != 200]
    assert refused
    for answer in refused:
        assert answer.status_code in {429, 503}, answer.text
        assert int(answer.headers["retry-after"]) > 0
    applied = {f"n{number}" for number, answer in answers if answer.status_code == 200}
    assert applied
    held = small.get(catalog.table(levels, "t")).json()["metadata"]["properties"]
    assert {name for name in held if name.startswith("n")} == applied


def test_load_23_overload_is_never_the_clients_fault(small: Http) -> None:
    catalog = Catalog(small)
    levels = catalog.new_namespace()

    def work(number: int) -> Any:
        if number % 2:
            return catalog.create(levels, f"t{number}")
        return small.post(f"{catalog.base}/namespaces", json={"namespace": [f"{levels[0]}_{number}"]})

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(work, range(200)))
    codes = {answer.status_code for answer in answers}
    assert codes <= {200, 429, 503}
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code != 200)
    assert 200 in codes
    assert codes - {200}
