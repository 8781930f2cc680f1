"""What the commands say and how they exit."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from ingest_plugin.cli import app
from tests.fakes.mock_cluster import mock_cluster
from tests.fakes.registry import serve

runner = CliRunner()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with mock_cluster() as address:
        yield address


def config(tmp_path: Path, text: str) -> str:
    path = tmp_path / "ingest.toml"
    path.write_text(text)
    return str(path)


def test_a_wrong_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        '[catalog]\nuri = "x"\n[kafka]\n"bootstrap.servers" = "x"\n[topics.t]\nnamespace = "n"\n"partition.bye" = "a"',
    )
    for command in ("run", "validate"):
        result = runner.invoke(app, [command, "--config", path])
        assert result.exit_code == 2
        assert (
            result.output == "error: [topics.t]: unknown key 'partition.bye'; did you mean 'partition.by'?\n"
        )


def test_a_missing_file_and_a_setting_that_the_client_refuses(tmp_path: Path) -> None:
    result = runner.invoke(app, ["run", "--config", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert result.output.startswith("error: cannot read ")
    path = config(
        tmp_path,
        '[catalog]\nuri = "http://127.0.0.1:9"\n[kafka]\n"bootstrap.servers" = "x"\n"no.such.key" = 1\n'
        '[topics.t]\nnamespace = "n"',
    )
    result = runner.invoke(app, ["run", "--config", path])
    assert result.exit_code == 1
    assert "no.such.key" in result.output


def test_help_names_both_commands() -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "run" in result.output
    assert "validate" in result.output


def test_validate_finds_every_trouble_and_changes_nothing(tmp_path: Path, bootstrap: str) -> None:
    Producer({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics("t", timeout=10)
    with serve() as registry:
        registry.status = 500
        path = config(
            tmp_path,
            f'[catalog]\nuri = "http://127.0.0.1:9/iceberg"\n[kafka]\n"bootstrap.servers" = "{bootstrap}"\n'
            f'[registry]\nurl = "{registry.url}"\n[topics.t]\nnamespace = "n"\n"convert.value.type" = "json"\n'
            '"partition.by" = "month(a)"\nschema = { columns = { a = "string" } }\n',
        )
        result = runner.invoke(app, ["validate", "--config", path, "--json"])
    assert result.exit_code == 1
    findings = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert {what: finding["ok"] for what, finding in findings.items()} == {
        "catalog": False,
        "registry": False,
        "kafka": True,
        "topic t": True,
        "table n.t": False,
    }
    assert "127.0.0.1:9" in findings["catalog"]["detail"]
    assert "HTTP 500" in findings["registry"]["detail"]
    assert "partitions" in findings["topic t"]["detail"]


def test_validate_asks_an_absent_broker_once_and_names_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest_plugin.confluent.REQUEST_SECONDS", 0.5)
    topics = "".join(f'[topics.t{number}]\nnamespace = "n"\n' for number in range(3))
    path = config(
        tmp_path,
        '[catalog]\nuri = "http://127.0.0.1:9/iceberg"\n[kafka]\nbootstrap.servers = "127.0.0.1:9"\n'
        + topics,
    )
    result = runner.invoke(app, ["validate", "--config", path, "--json"])
    assert result.exit_code == 1
    findings = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert "Kafka at 127.0.0.1:9 does not answer" in findings["kafka"]["detail"]
    for number in range(3):
        assert findings[f"topic t{number}"]["detail"] == "not checked: no broker answers"
        assert not findings[f"table n.t{number}"]["ok"]
