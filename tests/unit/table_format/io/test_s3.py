"""What S3 adds to the behaviour of all stores: a network and a store that fail, parts, ranges, properties."""

import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from table_format.clock import SystemClock
from table_format.errors import AlreadyExists, Forbidden, Invalid, NoSuchFile, Unavailable
from table_format.io import s3 as s3_module
from table_format.io.fileio import pyarrow_input
from table_format.io.resolve import store_for
from table_format.io.s3 import MARK, S3ObjectStore
from table_format.io.s3_client import Repeater, Tries, _session, connect
from table_format.io.s3_settings import for_clients, read_settings
from tests.fakes.clock import CountingIds, ManualClock
from tests.s3 import KEY, READER_KEY, READER_SECRET, SECRET, S3Server
from tests.s3_faults import Fault, Proxy, faulty

MIB = 1 << 20


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    return s3.bucket()


@pytest.fixture
def base(bucket: str, request: pytest.FixtureRequest) -> str:
    return f"s3://{bucket}/{request.node.name}"


@pytest.fixture(scope="module")
def network(s3: S3Server) -> Iterator[Proxy]:
    with faulty(s3) as running:
        yield running


@pytest.fixture
def proxy(network: Proxy) -> Iterator[Proxy]:
    network.requests.clear()
    yield network
    network.faults.clear()


@pytest.fixture(scope="module")
def client(network: Proxy) -> Any:
    return connect(read_settings("s3://b", network.server.properties))


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(proxy: Proxy, client: Any, time: ManualClock) -> S3ObjectStore:
    """A store behind the proxy, with the smallest parts."""
    return through(proxy, client, time)


def through(proxy: Proxy, client: Any, time: ManualClock, **properties: str) -> S3ObjectStore:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
    parts = {"s3.multipart.part-size-bytes": str(5 * MIB)}
    settings = read_settings("s3://b", {**proxy.server.properties, **parts, **named})
    return S3ObjectStore(settings, clock=time, ids=CountingIds(), client=client)


@pytest.fixture(scope="module")
def plain(s3: S3Server) -> S3ObjectStore:
    """The store as it is, to look what came of it."""
    return S3ObjectStore(read_settings("s3://b", s3.properties))


def unfinished(s3: S3Server, base: str) -> list[str]:
    found = s3.client().list_multipart_uploads(Bucket=base.split("/")[2], Prefix=base.split("/", 3)[3])
    return [upload["Key"] for upload in found.get("Uploads", [])]


# --- a bad day -------------------------------------------------------------------------------------------------


def test_slow_down_is_waited_for_longer_and_longer(
    store: S3ObjectStore, proxy: Proxy, time: ManualClock, base: str
) -> None:
    proxy.faults.append(Fault(kind="slow_down", times=4))
    store.put(f"{base}/x", b"1")
    assert store.get(f"{base}/x") == b"1"
    assert time.sleeps == [0.4, 0.8, 1.6, 3.2]


def test_a_failing_store_is_asked_again_sooner(
    store: S3ObjectStore, proxy: Proxy, time: ManualClock, base: str
) -> None:
    proxy.faults.append(Fault(kind="failed", times=3))
    store.put(f"{base}/x", b"1")
    assert time.sleeps == [0.05, 0.1, 0.2]


def test_a_store_that_stays_away_is_told_and_not_asked_for_ever(
    store: S3ObjectStore, proxy: Proxy, time: ManualClock, base: str
) -> None:
    proxy.faults.append(Fault(kind="slow_down", times=1000))
    with pytest.raises(Unavailable, match=r"slow down.*SlowDown"):
        store.get(f"{base}/x")
    assert len(proxy.requests) == 9
    assert sum(time.sleeps) <= 60


def test_the_budget_of_repeats_is_shared_by_all_requests(time: ManualClock) -> None:
    repeater = Repeater(read_settings("s3://b", {}), time, CountingIds())
    answers: list[bool] = []
    away = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}

    def work(_: Tries) -> None:
        answers.append(False)
        raise ClientError(away, "GetObject")  # type: ignore[arg-type]

    for _ in range(20):
        with pytest.raises(Unavailable):
            repeater.run("s3://b/x", work)
    assert len(answers) == 20 + 100  # a hundred repeats are paid for at first
    for _ in range(10):
        repeater.run("s3://b/x", lambda _: None)  # what succeeds pays for more
    with pytest.raises(Unavailable):
        repeater.run("s3://b/x", work)
    assert len(answers) == 20 + 100 + 1 + 2


def test_a_store_says_how_long_to_wait(time: ManualClock) -> None:
    repeater = Repeater(read_settings("s3://b", {"s3.retry.num-retries": "1"}), time, CountingIds())
    told = {"HTTPStatusCode": 503, "HTTPHeaders": {"retry-after": "7"}}

    def work(_: Tries) -> None:
        raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": told}, "GetObject")  # type: ignore[typeddict-item]

    with pytest.raises(Unavailable):
        repeater.run("s3://b/x", work)
    assert time.sleeps == [7]


@pytest.mark.parametrize("kind", ["cut_before", "answer_lost", "failed"])
def test_every_request_survives_one_fault(store: S3ObjectStore, proxy: Proxy, kind: str, base: str) -> None:
    proxy.faults += [
        Fault(kind=kind, pattern=pattern)  # type: ignore[arg-type]
        for pattern in (
            r"^PUT /[^?]*$",
            r"^GET [^?]*$",
            r"^HEAD ",
            r"^GET .*list-type",
            r"^POST .*delete",
            r"^PUT.*partNumber=1",
        )
    ]
    store.put(f"{base}/x", b"x" * 1000)
    assert store.get(f"{base}/x") == b"x" * 1000
    assert store.head(f"{base}/x").size == 1000
    assert [info.path for info in store.list(base)] == [f"{base}/x"]
    with store.open_output(f"{base}/big") as out:
        out.write(b"y" * (5 * MIB + 1))
    assert store.get(f"{base}/big") == b"y" * (5 * MIB + 1)
    assert list(store.delete_many([f"{base}/x", f"{base}/big"])) == []
    assert list(store.list(base)) == []
    assert [fault.times for fault in proxy.faults] == [0] * 6


def test_an_answer_cut_short_is_asked_for_again(store: S3ObjectStore, proxy: Proxy, base: str) -> None:
    store.put(f"{base}/x", b"0123456789" * 1000)
    proxy.faults.append(Fault(kind="cut_in_body", pattern="^GET", times=2))
    assert store.get(f"{base}/x") == b"0123456789" * 1000
    proxy.faults.append(Fault(kind="cut_in_body", pattern="^GET .*list-type"))
    assert len(list(store.list(base))) == 1


# --- written, or not -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 3])
def test_a_conditional_write_whose_answer_was_lost_is_known_for_our_own(
    store: S3ObjectStore, proxy: Proxy, base: str, lost: int
) -> None:
    proxy.faults.append(Fault(kind="answer_lost", pattern="^PUT", times=lost))
    store.put(f"{base}/x", b"ours", if_absent=True)
    assert store.get(f"{base}/x") == b"ours"


def test_a_refusal_whose_answer_was_lost_is_not_taken_for_our_own(
    store: S3ObjectStore, proxy: Proxy, base: str
) -> None:
    store.put(f"{base}/x", b"same text", if_absent=True)
    proxy.faults.append(Fault(kind="answer_lost", pattern="^PUT"))
    with pytest.raises(AlreadyExists):
        store.put(f"{base}/x", b"same text", if_absent=True)


def test_a_conditional_write_that_nobody_answers_is_not_said_to_be_undone(
    store: S3ObjectStore, proxy: Proxy, plain: S3ObjectStore, base: str
) -> None:
    proxy.faults.append(Fault(kind="answer_lost", times=1000))
    with pytest.raises(Unavailable, match="not known whether it was written"):
        store.put(f"{base}/x", b"ours", if_absent=True)
    assert plain.get(f"{base}/x") == b"ours"


def test_a_store_that_was_never_reached_has_certainly_not_written(
    store: S3ObjectStore, proxy: Proxy, base: str
) -> None:
    proxy.faults.append(Fault(kind="slow_down", times=1000))
    with pytest.raises(Unavailable) as caught:
        store.put(f"{base}/x", b"ours", if_absent=True)
    assert "not known" not in caught.value.message


def test_without_conditional_writes_it_looks_first(
    proxy: Proxy, client: Any, time: ManualClock, base: str
) -> None:
    store = through(proxy, client, time, s3__conditional_write="false")
    store.put(f"{base}/x", b"first", if_absent=True)
    with pytest.raises(AlreadyExists):
        store.put(f"{base}/x", b"second", if_absent=True)
    assert store.get(f"{base}/x") == b"first"


# --- parts -----------------------------------------------------------------------------------------------------


def test_an_upload_in_parts_appears_whole_at_close(
    store: S3ObjectStore, plain: S3ObjectStore, s3: S3Server, base: str
) -> None:
    data = bytes(range(256)) * (13 * MIB // 256) + b"tail"
    out = store.open_output(f"{base}/x")
    for start in range(0, len(data), 700_001):
        out.write(data[start : start + 700_001])
    assert not plain.exists(f"{base}/x")
    assert unfinished(s3, base) == [f"{base}/x".split("/", 3)[3]]
    out.close()
    assert plain.get(f"{base}/x") == data
    assert unfinished(s3, base) == []


def test_an_upload_left_by_an_exception_leaves_no_parts(
    store: S3ObjectStore, s3: S3Server, base: str
) -> None:
    with pytest.raises(KeyError), store.open_output(f"{base}/x") as out:  # noqa: PT012
        out.write(b"x" * (11 * MIB))
        assert unfinished(s3, base)
        raise KeyError
    assert unfinished(s3, base) == []
    assert not store.exists(f"{base}/x")


@pytest.mark.parametrize("failing", ["partNumber=2", r"^POST .*uploadId="])
def test_an_upload_that_fails_leaves_neither_object_nor_parts(
    store: S3ObjectStore, proxy: Proxy, s3: S3Server, base: str, failing: str
) -> None:
    proxy.faults.append(Fault(kind="failed", pattern=failing, times=1000))
    out = store.open_output(f"{base}/x")
    with pytest.raises(Unavailable):  # noqa: PT012
        out.write(b"x" * (11 * MIB))
        out.close()
    out.__exit__(None, None, None) if not out.closed else None
    assert not store.exists(f"{base}/x")
    assert unfinished(s3, base) == []


@pytest.mark.parametrize("lost", [1, 2])
def test_an_upload_whose_last_answer_was_lost_is_there(
    store: S3ObjectStore, proxy: Proxy, base: str, lost: int
) -> None:
    proxy.faults.append(Fault(kind="answer_lost", pattern=r"^POST .*uploadId=", times=lost))
    with store.open_output(f"{base}/x") as out:
        out.write(b"x" * (6 * MIB))
    assert store.head(f"{base}/x").size == 6 * MIB


class Forgetful:
    """A store that forgets an upload once it is complete, and whose answer to that is lost."""

    def __init__(self, *, done: bool) -> None:
        self.done = done
        self.mark: dict[str, str] = {}
        self.calls: list[str] = []

    def create_multipart_upload(self, **request: Any) -> dict[str, str]:
        self.mark = request["Metadata"] if self.done else {MARK: "another's"}
        return {"UploadId": "u"}

    def upload_part(self, **_: Any) -> dict[str, str]:
        return {"ETag": "e"}

    def complete_multipart_upload(self, **_: Any) -> None:
        self.calls.append("complete")
        if len(self.calls) == 1:
            raise ReadTimeoutError(endpoint_url="x")
        told = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
        raise ClientError(told, "CompleteMultipartUpload")  # type: ignore[arg-type]

    def abort_multipart_upload(self, **_: Any) -> None:
        self.calls.append("abort")

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"Metadata": self.mark}


@pytest.mark.parametrize("done", [True, False])
def test_an_upload_that_is_gone_is_looked_for_by_its_mark(time: ManualClock, done: bool) -> None:
    client = Forgetful(done=done)
    settings = read_settings("s3://b", {"s3.multipart.part-size-bytes": str(5 * MIB)})
    store = S3ObjectStore(settings, clock=time, ids=CountingIds(), client=client)
    out = store.open_output("s3://b/x")
    out.write(b"x" * (6 * MIB))
    if done:
        out.close()
        assert client.calls == ["complete", "complete"]
        return
    with pytest.raises(Unavailable, match="ended by another"):
        out.close()
    assert client.calls == ["complete", "complete", "abort"]


# --- lists -----------------------------------------------------------------------------------------------------


def test_a_listing_of_many_pages_is_complete(
    store: S3ObjectStore, proxy: Proxy, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "_KEYS_AT_ONCE", 3)
    wanted = [f"{base}/{number:02d}" for number in range(10)]
    for path in wanted:
        store.put(path, b"1")
    proxy.requests.clear()
    proxy.faults.append(Fault(kind="failed", pattern="continuation-token"))
    assert [info.path for info in store.list(base)] == wanted
    assert len([request for request in proxy.requests if "list-type" in request]) == 5
    proxy.faults.append(Fault(kind="failed", pattern="continuation-token", times=1000, skip=1))
    with pytest.raises(Unavailable):
        list(store.list(base))


def test_folders_that_consoles_make_are_no_objects(store: S3ObjectStore, s3: S3Server, base: str) -> None:
    bucket, key = base.split("/")[2], base.split("/", 3)[3]
    s3.client().put_object(Bucket=bucket, Key=f"{key}/folder/", Body=b"")
    store.put(f"{base}/folder/x", b"1")
    assert [info.path for info in store.list(base)] == [f"{base}/folder/x"]


class CutShort:
    """A store that says there is more, and not from where on; or says so for ever."""

    def __init__(self, token: str | None) -> None:
        self.token = token

    def list_objects_v2(self, **_: Any) -> dict[str, Any]:
        return {"IsTruncated": True, "NextContinuationToken": self.token, "Contents": []}


@pytest.mark.parametrize("token", [None, "", "again"])
def test_a_listing_that_can_not_be_finished_is_no_listing(time: ManualClock, token: str | None) -> None:
    settings = read_settings("s3://b", {})
    store = S3ObjectStore(settings, clock=time, ids=CountingIds(), client=CutShort(token))
    with pytest.raises(Unavailable, match="cut short"):
        list(store.list("s3://b/t"))


def test_nothing_seems_older_than_it_is(plain: S3ObjectStore, base: str) -> None:
    before = SystemClock().now_ms()
    plain.put(f"{base}/x", b"1")
    ages = [plain.head(f"{base}/x").modified_ms, next(plain.list(base)).modified_ms]
    assert all(age is not None and age >= before for age in ages)


def test_lists_of_keys_carry_the_checksum_that_every_store_knows(
    store: S3ObjectStore, client: Any, base: str
) -> None:
    sent: list[dict[str, str]] = []

    def look(request: Any, **_: Any) -> None:
        sent.append({name.lower(): str(value) for name, value in request.headers.items()})

    client.meta.events.register("before-send.s3.DeleteObjects", look)
    store.delete_many([f"{base}/x"])
    client.meta.events.unregister("before-send.s3.DeleteObjects", look)
    (headers,) = sent
    assert "content-md5" in headers
    assert not [name for name in headers if name.startswith(("x-amz-checksum", "x-amz-sdk"))]


def test_objects_are_deleted_a_thousand_by_one_request(store: S3ObjectStore, proxy: Proxy, base: str) -> None:
    for name in ("0", "1200", "2400", "kept"):
        store.put(f"{base}/{name}", b"1")
    proxy.requests.clear()
    assert list(store.delete_many(f"{base}/{number}" for number in range(2500))) == []
    assert len(proxy.requests) == 3
    assert [info.path for info in store.list(base)] == [f"{base}/kept"]


def test_a_key_that_xml_can_not_hold_is_deleted(store: S3ObjectStore, proxy: Proxy, base: str) -> None:
    assert list(store.delete_many([f"{base}/a\x01b", f"{base}/c"])) == []
    assert [request.split()[0] for request in proxy.requests] == ["DELETE", "POST"]
    assert proxy.requests[0].endswith("/a%01b")


def test_keys_are_sent_letter_by_letter(store: S3ObjectStore, proxy: Proxy, base: str) -> None:
    store.put(f"{base}/a\\b//c%2Fd ü+&=?#.x", b"1")
    assert proxy.requests[0].endswith("/a%5Cb//c%252Fd%20%C3%BC%2B%26%3D%3F%23.x")


def test_other_spellings_of_the_scheme_are_the_same_objects(plain: S3ObjectStore, base: str) -> None:
    spelled = "s3a" + base.removeprefix("s3")
    plain.put(f"{spelled}/x", b"1")
    assert plain.get(f"{base}/x") == b"1"
    assert [info.path for info in plain.list(spelled)] == [f"{spelled}/x"]
    plain.delete_many([f"s3n{base.removeprefix('s3')}/x"])
    assert not plain.exists(f"{spelled}/x")


# --- reading ---------------------------------------------------------------------------------------------------


def test_reading_on_asks_for_more_and_more_and_reading_about_for_little(
    store: S3ObjectStore, proxy: Proxy, base: str
) -> None:
    data = bytes(range(256)) * (8 * MIB // 256)
    store.put(f"{base}/x", data)
    proxy.requests.clear()
    with store.open_input(f"{base}/x") as reader:
        assert b"".join(iter(lambda: reader.read(100_000), b"")) == data
    assert len(proxy.requests) == 6  # 256 KiB, then 512 KiB, 1, 2, 4 MiB and the rest
    proxy.requests.clear()
    with store.open_input(f"{base}/x") as reader:
        for start, size in ((7_000_000, 10), (7_000_100, 1000), (3_000_000, 2_000_000), (8 * MIB - 5, 99)):
            reader.seek(start)
            assert reader.read(size) == data[start : start + size]
        assert reader.read(1) == b""
    assert len(proxy.requests) == 4


def test_a_small_object_is_read_by_one_request(store: S3ObjectStore, proxy: Proxy, base: str) -> None:
    table = pa.table({"n": list(range(1000))})
    with store.open_output(f"{base}/x.parquet") as out:
        pq.write_table(table, out)
    proxy.requests.clear()
    with pyarrow_input(store, f"{base}/x.parquet") as source:
        assert pq.read_table(source).equals(table)
    assert len(proxy.requests) == 1


def test_an_object_replaced_while_it_is_read_is_told(store: S3ObjectStore, base: str) -> None:
    store.put(f"{base}/x", b"1" * MIB)
    with store.open_input(f"{base}/x") as reader:
        reader.read(10)
        store.put(f"{base}/x", b"2" * MIB)
        reader.seek(900_000)
        with pytest.raises(Unavailable, match="replaced"):
            reader.read(10)


# --- refusals --------------------------------------------------------------------------------------------------


def test_a_missing_bucket_is_not_a_missing_object(plain: S3ObjectStore) -> None:
    path = "s3://no-such-bucket-here/t/x"
    for call in (plain.get, plain.head, plain.exists, plain.open_input, lambda p: list(plain.list(p))):
        with pytest.raises(Invalid, match="no bucket 'no-such-bucket-here'"):
            call(path)
    with pytest.raises(Invalid, match="no-such-bucket-here"):
        plain.delete_many([path])


def test_a_missing_object_of_a_bucket_that_is_there(plain: S3ObjectStore, base: str) -> None:
    for call in (plain.get, plain.head, plain.open_input):
        with pytest.raises(NoSuchFile):
            call(f"{base}/nothing")


def test_credentials_that_may_only_read(s3: S3Server, plain: S3ObjectStore, base: str) -> None:
    plain.put(f"{base}/x", b"1")
    reader = {"s3.access-key-id": READER_KEY, "s3.secret-access-key": READER_SECRET}
    store = store_for(base, {**s3.storage, **reader})
    assert store.get(f"{base}/x") == b"1"
    for write in (
        lambda: store.put(f"{base}/y", b"1"),
        lambda: store.put(f"{base}/y", b"1", if_absent=True),
        lambda: store.open_output(f"{base}/y").close(),
    ):
        with pytest.raises(Forbidden, match="AccessDenied"):
            write()
    assert [(failed.path, failed.reason) for failed in store.delete_many([f"{base}/x"])] == [
        (f"{base}/x", "AccessDenied")
    ]
    assert plain.get(f"{base}/x") == b"1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s3.secret-access-key": "wrong-secret-text"}, "secret key is not the one"),
        ({"s3.access-key-id": "unknown-key-text"}, "not known there"),
        ({"s3.session-token": "forged-token-text"}, "credentials"),
    ],
)
def test_wrong_credentials_are_told_and_not_shown(
    s3: S3Server, base: str, change: dict[str, str], message: str
) -> None:
    store = store_for(base, {**s3.properties, **change})
    with pytest.raises(Forbidden, match=message) as caught:
        store.get(f"{base}/x")
    told = "".join(traceback.format_exception(caught.value)) + repr(store) + repr(store.__dict__)  # type: ignore[attr-defined]
    for secret in (SECRET, *change.values()):
        assert secret not in told


def test_nobody_at_the_endpoint(time: ManualClock) -> None:
    settings = read_settings(
        "s3://b", {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key-id": "k", "s3.secret-access-key": "s"}
    )
    store = S3ObjectStore(settings, clock=time, ids=CountingIds())
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9 can not be reached"):
        store.put("s3://bucket/x", b"1", if_absent=True)
    assert len(time.sleeps) == 8


@pytest.mark.parametrize(
    "path", ["s3://bucket", "s3://bucket/", "s3:///key", "gs://bucket/key", "bucket/key"]
)
def test_paths_that_name_no_object(plain: S3ObjectStore, path: str) -> None:
    with pytest.raises(Invalid):
        plain.get(path)


def test_one_store_for_equal_settings_and_another_for_others(s3: S3Server) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(store_for("s3://a/x", s3.properties))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert store_for("s3a://b", s3.properties) is found[0]
    assert store_for("s3://a/x", {**s3.properties, "s3.session-token": "t"}) is not found[0]


def test_a_client_reaches_it_by_what_it_is_told_and_the_keys_of_its_surroundings(
    s3: S3Server, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `frazil ingest` does."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    told = for_clients({**s3.storage, "s3.max-connections": "3"})
    assert not set(told) & {"s3.access-key-id", "s3.secret-access-key"}
    _session.cache_clear()
    settings = read_settings(base, told)
    assert settings.access_key_id is None
    S3ObjectStore(settings).put(f"{base}/x", b"1", if_absent=True)
    _session.cache_clear()  # it knows the keys now
