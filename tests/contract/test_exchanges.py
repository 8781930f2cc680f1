"""Recorded requests and answers, real ones, held against our document and against upstream's."""

import copy
import json
from collections.abc import Callable

import pytest

from catalog_server.api.iceberg.openapi.document import DESCRIBED
from catalog_server.api.iceberg.router import describe
from catalog_server.app import create_app
from tests.api.iceberg_client import Catalog, Http, in_process
from tests.contract.clients import duck, listening, pyiceberg
from tests.contract.conformance import Contract
from tests.contract.differences import STATUSES_HERE, STATUSES_ONLY_HERE
from tests.contract.recording import Exchange, Recorder
from tests.contract.scenario import drive
from tests.contract.upstream import Document

OURS = Contract(describe())


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    with in_process(tmp_path_factory.mktemp("contract")) as (http, platform):
        recorder = Recorder(create_app(platform), "by hand")
        drive(Catalog(Http(recorder, http.portal)))
    return recorder.exchanges


def faults(contract: Contract, exchanges: list[Exchange]) -> list[str]:
    return [fault for exchange in exchanges for fault in contract.faults(exchange)]


def test_every_operation_occurs_as_it_should_be_and_refused(by_hand: list[Exchange]) -> None:
    done, refused = set(), set()
    for exchange in by_hand:
        operation = OURS.operation(exchange)
        (done if exchange.status < 400 else refused).add(operation)
    everything = {
        (path, verb) for path, item in OURS.document["paths"].items() for verb in item if verb != "parameters"
    }
    offered = {
        (path, verb.lower())
        for verb, path in (one.split(" ") for one, told in DESCRIBED.items() if told.offered)
    }
    assert done >= everything & offered
    assert refused >= everything


def test_exchanges_by_hand_are_as_our_document_says(by_hand: list[Exchange]) -> None:
    assert faults(OURS, by_hand) == []


def test_exchanges_by_hand_are_as_upstream_says(by_hand: list[Exchange], upstream: Document) -> None:
    also = STATUSES_ONLY_HERE.keys() | {line.split(" ")[1] for line in STATUSES_HERE}
    assert faults(Contract(upstream, also), by_hand) == []


@pytest.fixture(scope="module", params=[pyiceberg, duck], ids=["pyiceberg", "duckdb"])
def by_client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    work: Callable[[str], None] = request.param
    with listening(tmp_path_factory.mktemp("client"), work.__name__) as (uri, exchanges):
        work(uri)
    return exchanges


CLIENTS = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class TestClients:
    """The same, on exchanges of programs that know nothing of us."""

    pytestmark = CLIENTS

    def test_they_commit(self, by_client: list[Exchange]) -> None:
        done = {OURS.operation(exchange) for exchange in by_client if exchange.status < 300}
        paths = {path for path, verb in filter(None, done) if verb == "post"}
        assert any(path.endswith(("/tables/{table}", "/transactions/commit")) for path in paths)

    def test_exchanges_are_as_our_document_says(self, by_client: list[Exchange]) -> None:
        assert faults(OURS, by_client) == []

    def test_exchanges_are_as_upstream_says(self, by_client: list[Exchange], upstream: Document) -> None:
        assert faults(Contract(upstream), by_client) == []


@pytest.mark.parametrize("of_upstream", [False, True], ids=["ours", "upstream"])
def test_a_contract_notices_what_is_wrong(
    by_hand: list[Exchange], of_upstream: bool, request: pytest.FixtureRequest
) -> None:
    contract = Contract(request.getfixturevalue("upstream")) if of_upstream else OURS
    good = next(
        one
        for one in by_hand
        if one.method == "POST" and one.path.endswith("/tables/t") and one.status == 200
    )
    assert contract.faults(good) == []
    answer, sent = json.loads(good.answer), json.loads(good.request)
    wrong_member = copy.deepcopy(answer)
    wrong_member["metadata"]["schemas"][0]["fields"][0]["id"] = "1"
    for change in (
        {"status": 418},
        {"status": 204},
        {"headers": {"content-type": "text/html"}},
        {"answer": json.dumps({"metadata": answer["metadata"]}).encode()},
        {"answer": json.dumps(wrong_member).encode()},
        {"query": "no-such=1"},
        {"request": json.dumps({"updates": sent["updates"]}).encode()},
        {"request": json.dumps({**sent, "updates": [{"action": "add-snapshot"}]}).encode()},
        {"request": json.dumps({**sent, "requirements": [{"type": "assert-table-uuid"}]}).encode()},
        {"path": "/v1/default/no-such"},
    ):
        bad = copy.copy(good)
        for name, value in change.items():
            setattr(bad, name, value)
        assert contract.faults(bad) != [], change
