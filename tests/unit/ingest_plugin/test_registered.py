"""Asking a catalog for registered topics: what is no Frazil server is told apart from one that is away."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingest_plugin.cli import app
from ingest_plugin.registered import Registrations
from ingest_plugin.settings import CatalogSettings
from table_format.errors import Forbidden, TableFormatError, Unavailable, Unsupported
from tests.fakes.answers import Answers, answering

PAGE = '{"topics": [], "nextPageToken": null}'


@pytest.fixture
def answers() -> Iterator[Answers]:
    with answering() as running:
        yield running


def registrations(uri: str, token: str = "") -> Registrations:
    return Registrations(CatalogSettings.model_validate({"uri": uri, "token": token}))


def test_an_address_that_is_not_ours_is_not_asked() -> None:
    with pytest.raises(Unsupported, match="no registered topics") as refused:
        registrations("http://127.0.0.1:9/catalog").of("g")
    assert "topics of the file are read all the same" in str(refused.value)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, "<html>not found</html>", Unsupported),
        (404, '{"error": {"message": "no such path"}}', Unsupported),
        (405, "", Unsupported),
        (200, "<html>hello</html>", Unsupported),
        (200, "[]", Unsupported),
        (200, "{}", Unsupported),
        (401, "{}", Forbidden),
        (403, "{}", Forbidden),
        (500, "{}", Unavailable),
        (503, "{}", Unavailable),
        (429, "{}", Unavailable),
    ],
)
def test_what_an_answer_means(answers: Answers, status: int, body: str, kind: type[TableFormatError]) -> None:
    answers.next = [(status, body)]
    with pytest.raises(kind):
        registrations(f"{answers.url}/iceberg").of("g")


def test_a_server_that_had_registrations_is_away_when_it_says_nothing_of_them(answers: Answers) -> None:
    """A proxy's page or an older server behind it must not look as if every topic had been removed."""
    asked = registrations(f"{answers.url}/iceberg")
    answers.next = [(200, PAGE), (200, "<html>maintenance</html>"), (405, ""), (200, '{"state": "starting"}')]
    assert asked.of("g") == {}
    for _ in range(3):
        with pytest.raises(Unavailable):
            asked.of("g")


def test_pages_are_read_to_the_end_and_other_groups_left_out(answers: Answers) -> None:
    def one(topic: str, group: str) -> str:
        return f'{{"topic": "{topic}", "group": "{group}", "settings": {{}}, "version": 1, "updatedAtMs": 1}}'

    answers.next = [
        (200, f'{{"topics": [{one("a", "g")}, {one("b", "h")}], "nextPageToken": "t&1"}}'),
        (200, f'{{"topics": [{one("c", "g")}], "nextPageToken": null}}'),
    ]
    asked = registrations(f"{answers.url}/iceberg/", token="s3cret")
    assert list(asked.of("g")) == ["a", "c"]
    assert [request.path for request in answers.seen] == [
        "/api/v1/buckets/default/ingest/topics?pageSize=1000",
        "/api/v1/buckets/default/ingest/topics?pageSize=1000&pageToken=t%261",
    ]
    assert {request.headers["Authorization"] for request in answers.seen} == {"Bearer s3cret"}


def test_a_bucket_may_be_named_by_its_arn(answers: Answers) -> None:
    answers.next = [(200, PAGE)]
    arn = "arn:aws:s3tables:us-east-1:000000000000:bucket/sales"
    asked = Registrations(CatalogSettings(uri=f"{answers.url}/iceberg", warehouse=arn))
    assert asked.of("g") == {}
    assert answers.seen[0].path.startswith("/api/v1/buckets/sales/ingest/")


def test_nobody_there_is_away() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot reach the catalog"):
        registrations(f"http://127.0.0.1:{port}/iceberg").of("g")


def test_commands_at_another_catalog_say_so(tmp_path: Path) -> None:
    config = tmp_path / "ingest.toml"
    config.write_text(
        '[catalog]\nuri = "http://127.0.0.1:9/other"\ntoken = "s3cret"\n[kafka]\n"bootstrap.servers" = "x"\n'
    )
    for arguments in (
        ["add", "t", "namespace=n"],
        ["set", "t", "namespace=n"],
        ["list"],
        ["show", "t"],
        ["remove", "t", "--yes"],
        ["history"],
    ):
        result = CliRunner().invoke(app, ["topic", *arguments, "--config", str(config)])
        assert result.exit_code == 1
        assert "has no registered topics" in result.output
        assert "s3cret" not in result.output


def test_arguments_that_are_none(tmp_path: Path) -> None:
    config = tmp_path / "ingest.toml"
    config.write_text('[catalog]\nuri = "http://127.0.0.1:9/iceberg"\n[kafka]\n"bootstrap.servers" = "x"\n')
    broken = tmp_path / "broken.toml"
    broken.write_text("a = ")
    for arguments, expected in (
        (["namespace"], "write KEY=VALUE"),
        (["=x"], "write KEY=VALUE"),
        (["--file", str(tmp_path / "none.toml")], "cannot read"),
        (["--file", str(broken)], "not valid TOML"),
    ):
        result = CliRunner().invoke(app, ["topic", "add", "t", *arguments, "--config", str(config)])
        assert (result.exit_code, expected in result.output) == (2, True)
