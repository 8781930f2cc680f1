"""How buckets' stores are reached: whose properties win, where keys go, and which bucket a place is in."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from catalog_server.services.storage import Installation, Storage
from catalog_server.store.buckets import BucketStorage
from table_format.clock import SystemIds
from table_format.errors import Internal, Invalid, NoSuchWarehouse, Unsupported
from table_format.io.local import LocalObjectStore

KEYS = {"s3.access-key-id": "main-key", "s3.secret-access-key": "main-secret"}
OTHER = {"s3.access-key-id": "other-key", "s3.secret-access-key": "other-secret"}
BOUND = {**OTHER, "s3.endpoint": "http://bound:9000"}
MAIN = {"s3.endpoint": "http://main:9000", "s3.region": "r1", **KEYS}


class Buckets:
    """Stands for the database: answers the one question that is asked of it."""

    def __init__(self, *held: BucketStorage) -> None:
        self.held = list(held)

    def read_now(self, _fn: Callable[..., Any], locations: Sequence[str]) -> list[BucketStorage]:
        return [bucket for bucket in self.held if bucket.location in locations]


def bucket(location: str, credentials: str | None = None, **storage: str) -> BucketStorage:
    named = {"s3." + name.replace("_", "-"): value for name, value in storage.items()}
    return BucketStorage(location=location, storage=named, credentials=credentials)


@pytest.fixture
def make() -> Iterator[Callable[..., Storage]]:
    with ThreadPoolExecutor(1) as threads:

        def storage(*held: BucketStorage, properties: dict[str, str] = MAIN) -> Storage:
            return Storage(
                database=Buckets(*held),  # type: ignore[arg-type]
                installation=Installation(
                    properties=properties, credentials={"second": OTHER, "bound": BOUND}
                ),
                threads=threads,
                ids=SystemIds(),
            )

        yield storage


def test_a_bucket_without_settings_has_the_installations(make: Callable[..., Storage]) -> None:
    assert make(bucket("s3://b/x")).properties_of("s3://b/x/t/data/f.parquet") == MAIN


def test_a_buckets_own_win(make: Callable[..., Storage]) -> None:
    storage = make(bucket("s3://b/x", region="r2"))
    assert storage.properties_of("s3://b/x/t") == {**MAIN, "s3.region": "r2"}


def test_named_credentials_replace_those_of_the_installation(make: Callable[..., Storage]) -> None:
    storage = make(
        bucket("s3://b", "second", endpoint="http://other"), properties={**MAIN, "s3.session-token": "t"}
    )
    assert storage.properties_of("s3://b/x/t") == {
        "s3.endpoint": "http://other",
        "s3.region": "r1",
        **OTHER,
    }


def test_the_installations_keys_go_to_no_other_endpoint(make: Callable[..., Storage]) -> None:
    storage = make(bucket("s3://b", endpoint="http://evil"), bucket("s3://c", endpoint="http://main:9000/"))
    with pytest.raises(Invalid, match="credentials of its own"):
        storage.store_for("s3://b/t")
    with pytest.raises(Invalid, match="credentials of its own"):
        storage.check("s3://new", {"s3.endpoint": "http://evil"}, None)
    assert storage.properties_of("s3://c/t")["s3.secret-access-key"] == "main-secret"
    anonymous = storage.properties({"s3.endpoint": "http://open", "s3.anonymous": "true"}, None)
    assert anonymous == {"s3.endpoint": "http://open", "s3.anonymous": "true", "s3.region": "r1"}


def test_keys_that_are_for_one_endpoint_go_to_no_other_and_a_bucket_that_names_another_is_refused(
    make: Callable[..., Storage],
) -> None:
    storage = make(bucket("s3://b", "bound"), bucket("s3://old", "bound", endpoint="http://evil"))
    for place in ("s3://b/t", "s3://old/t"):  # the second as it was stored before there was a check
        assert storage.properties_of(place)["s3.endpoint"] == "http://bound:9000"
    told = storage.for_clients("s3://b", {}, "bound")
    assert told["s3.endpoint"] == "http://bound:9000"
    for same in ({}, {"s3.endpoint": "http://bound:9000/"}):
        storage.check("s3://new", same, "bound")
    with pytest.raises(
        Invalid, match=r"'bound' are for the endpoint http://bound:9000 only.*not for http://evil"
    ):
        storage.check("s3://new", {"s3.endpoint": "http://evil"}, "bound")
    with pytest.raises(Invalid, match="no credentials 'bund'"):
        storage.check("s3://new", {"s3.endpoint": "http://evil"}, "bund")


@pytest.mark.parametrize("spelled", ["s3://b/x/t/f", "s3a://b/x/t/f", "s3n://b/x//t/f", "s3://b/x"])
def test_a_place_is_found_in_its_bucket_however_it_is_spelled(
    make: Callable[..., Storage], spelled: str
) -> None:
    for location in ("s3://b/x", "s3a://b/x"):
        storage = make(bucket(location, region="here"), bucket("s3://b/x2", region="there"))
        assert storage.properties_of(spelled)["s3.region"] == "here"


@pytest.mark.parametrize("elsewhere", ["s3://b/x2/t", "s3://b", "s3://b2/x/t", "oss://b/x/t"])
def test_a_place_in_no_bucket_is_not_guessed_at(make: Callable[..., Storage], elsewhere: str) -> None:
    with pytest.raises(NoSuchWarehouse, match="No table bucket holds"):
        make(bucket("s3://b/x")).store_for(elsewhere)


def test_a_bucket_of_another_process_is_known_and_a_deleted_one_forgotten(
    make: Callable[..., Storage],
) -> None:
    storage = make()
    buckets: Any = storage.database
    with pytest.raises(NoSuchWarehouse):
        storage.store_for("s3://b/t")
    buckets.held.append(bucket("s3://b", region="one"))
    assert storage.properties_of("s3://b/t")["s3.region"] == "one"
    buckets.held[0] = bucket("s3://b", region="two")
    assert storage.properties_of("s3://b/t")["s3.region"] == "two"
    buckets.held.clear()
    with pytest.raises(NoSuchWarehouse):
        storage.store_for("s3://b/t")


def test_a_local_disk_is_reached_without_asking(make: Callable[..., Storage]) -> None:
    storage = make()
    assert isinstance(storage.store_for("file:///x/t"), LocalObjectStore)
    assert storage.properties_of("memory://x/t") == {}


def test_on_the_event_loop_it_is_refused(make: Callable[..., Storage]) -> None:
    storage = make(bucket("s3://b"))

    async def wrong() -> None:
        storage.store_for("s3://b/t")

    with pytest.raises(Internal, match="event loop"):
        asyncio.run(wrong())


@pytest.mark.parametrize(
    ("location", "properties", "credentials", "told"),
    [
        ("s3://b", {"s3.endpont": "http://x"}, None, "s3.endpoint"),
        ("s3://b", {"s3.secret-access-key": "hidden"}, "second", "storage.credentials.NAME"),
        ("s3://b", {}, "secnd", "did you mean 'second'"),
        ("s3://b", {}, "nobody", "storage.credentials.nobody"),
        ("file:///x", {"s3.region": "r"}, None, "is none"),
        ("file:///x", {}, "second", "is none"),
        ("file:///x", {"s3.session-token": "hidden"}, None, "storage.credentials.NAME"),
    ],
)
def test_what_can_not_be_a_buckets_storage(
    make: Callable[..., Storage],
    location: str,
    properties: dict[str, str],
    credentials: str | None,
    told: str,
) -> None:
    with pytest.raises(Invalid) as caught:
        make().check(location, properties, credentials)
    assert told in caught.value.message
    assert "hidden" not in caught.value.message


def test_a_scheme_without_a_store_is_told(make: Callable[..., Storage]) -> None:
    with pytest.raises(Unsupported, match="gopher"):
        make().check("gopher://x/y", {}, None)


def test_engines_are_told_no_secret(make: Callable[..., Storage]) -> None:
    told = make().for_clients("s3://b/x", {"s3.region": "r2"}, "second")
    assert told == {
        "s3.endpoint": "http://main:9000",
        "s3.region": "r2",
        "client.region": "r2",
        "s3.path-style-access": "true",
    }
    assert make().for_clients("file:///x", {}, None) == {}


def test_secrets_are_in_no_repr(make: Callable[..., Storage]) -> None:
    assert "secret" not in repr(make())
