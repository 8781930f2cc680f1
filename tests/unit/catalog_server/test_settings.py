"""Settings: where they come from, who wins, and what is said when one is wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from catalog_server import settings
from catalog_server.settings import PostgresUrl, SettingsError, load


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    loaded = load(None, {})
    assert (loaded.server.host, loaded.server.port) == ("127.0.0.1", 8181)
    assert loaded.storage.default_bucket == "default"
    assert loaded.limits.document_cache_bytes == 64 << 20
    assert loaded.limits.max_body_bytes == 32 << 20
    assert loaded.limits.max_metadata_bytes == 512 << 20
    assert loaded.database_location == Path("frazil-data/frazil.db")


def test_environment_wins_over_file_and_options_over_both(tmp_path: Path) -> None:
    config = write(
        tmp_path / "f.toml",
        "[server]\nport = 1\nhost = 'a'\n[limits]\nmax_body_mb = 3\n[telemetry]\nlog_format = 'json'",
    )
    environ = {"FRAZIL_SERVER__PORT": "2", "FRAZIL_SERVER__HOST": "b", "PATH": "/bin"}
    loaded = load(config, environ, {"server.port": 3})
    assert (loaded.server.port, loaded.server.host, loaded.limits.max_body_mb) == (3, "b", 3)
    assert loaded.telemetry.log_format == "json"


def test_the_processs_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_SERVER__PORT", "77")
    assert load().server.port == 77


def test_storage_credentials_by_name(tmp_path: Path) -> None:
    config = write(tmp_path / "f.toml", '[storage.credentials.one]\n"s3.session-token" = "x"\n')
    assert load(config, {}).storage.credentials == {"one": {"s3.session-token": "x"}}
    given = {
        "FRAZIL_STORAGE__CREDENTIALS__TWO": '{"s3.access-key-id": "k", "Key": "a"}',
        "FRAZIL_STORAGE__CREDENTIALS__TWO__Key": "b",
    }
    found = load(None, given).storage
    assert found.credentials == {"two": {"s3.access-key-id": "k", "Key": "b"}}
    assert "s3.access-key-id" not in repr(load(None, given))
    for variable, text in (
        ("FRAZIL_STORAGE__CREDENTIALS", "{}"),
        ("FRAZIL_STORAGE__CREDENTIALS__TWO", "hidden"),
        ("FRAZIL_STORAGE__CREDENTIALS__b.d", "{}"),
    ):
        with pytest.raises(SettingsError) as caught:
            load(None, {variable: text})
        assert "credentials" in str(caught.value).lower()
        assert "hidden" not in str(caught.value)


def test_storage_properties_from_either_place(tmp_path: Path) -> None:
    config = write(tmp_path / "f.toml", '[storage.properties]\n"s3.endpoint" = "http://x"\n')
    assert load(config, {}).storage.properties == {"s3.endpoint": "http://x"}
    given = {"FRAZIL_STORAGE__PROPERTIES__s3.endpoint": "http://y", "FRAZIL_STORAGE__PROPERTIES__Key": "v"}
    assert load(None, given).storage.properties == {"s3.endpoint": "http://y", "Key": "v"}
    given["FRAZIL_STORAGE__PROPERTIES"] = '{"s3.endpoint": "http://z", "s3.Region": "x"}'
    assert load(None, given).storage.properties == {
        "s3.endpoint": "http://y",
        "s3.Region": "x",
        "Key": "v",
    }


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        *(
            ({"FRAZIL_DATABASE__URL": f"{scheme}:///{path}"}, "setting database.url: write the absolute path")
            for scheme in ("sqlite", "sqlite+aiosqlite")
            for path in ("rel.db", "./rel.db", ":memory:")
        ),
        *(
            (
                {"FRAZIL_STORAGE__PROPERTIES": text},
                "environment variable FRAZIL_STORAGE__PROPERTIES must be a JSON object of texts: ",
            )
            for text in ("", "s3.endpoint=secret", '["secret"]', '{"secret": 1}', "null")
        ),
        (
            {"FRAZIL_SERVER__PROT": "1"},
            (
                "unknown setting server.prot (environment variable FRAZIL_SERVER__PROT); the nearest one is server.port"
            ),
        ),
        (
            {"FRAZIL_DATADIR": "x"},
            "unknown setting datadir (environment variable FRAZIL_DATADIR); the nearest one is server.data_dir",
        ),
        (
            {"FRAZIL_SERVER__PORT__X": "1"},
            ("unknown setting server.port.x (environment variable FRAZIL_SERVER__PORT__X)"),
        ),
        ({"FRAZIL_SERVER__PORT": "many"}, "setting server.port: Input should be a valid integer"),
        (
            {"FRAZIL_SERVER__PORT": "70000"},
            "setting server.port: Input should be less than or equal to 65535",
        ),
        ({"FRAZIL_TELEMETRY__LOG_LEVEL": "loud"}, "setting telemetry.log_level: String should match pattern"),
        (
            {"FRAZIL_ICEBERG__NAMESPACE_SEPARATOR": "/"},
            "setting iceberg.namespace_separator: String should match pattern",
        ),
        (
            {"FRAZIL_DATABASE__URL": "mysql://user:secret@host/db"},
            "setting database.url must be postgresql+asyncpg://user:password@host:port/database or sqlite:",
        ),
        *(
            (
                {"FRAZIL_DATABASE__URL": f"postgresql+asyncpg://{rest}"},
                "setting database.url is not of the form",
            )
            for rest in (
                "u:secret@host",
                "u:secret@host/",
                "u:1/secret@host/db",
                "u:#secret@host/db",
                "u@[secret/db",
            )
        ),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1", "unknown setting server.prot in "),
        ("port = 1", "unknown setting port in "),
        ("[servers]\nport = 1", "unknown setting servers.port in "),
        ("[server]\nport = {}", "setting server.port: "),
        ("server = ", "settings file "),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path / "f.toml", text), {})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can not be read: No such file"):
        load(tmp_path / "none.toml", {})
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not TOML"):
        load(tmp_path / "b.toml", {})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(SettingsError, match="on the command line"):
        load(None, {}, {"server.prot": 1})


def test_variables_of_other_commands_are_left_alone() -> None:
    environ = {"FRAZIL_DEMO_BOOTSTRAP_SERVERS": "x", "FRAZIL_INGEST_X": "1", "FRAZIL_TEST_Y": "1"}
    assert load(None, environ) == load(None, {})


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/x.db", "/var/x.db"),
        ("sqlite+aiosqlite:////var/x.db", "/var/x.db"),
    ],
)
def test_the_database_may_lie_elsewhere(url: str, path: str) -> None:
    assert load(None, {"FRAZIL_DATABASE__URL": url}).database_location == Path(path)


@pytest.mark.parametrize("scheme", ["postgresql+asyncpg", "postgresql", "postgres"])
@pytest.mark.parametrize(
    ("rest", "label"),
    [
        ("u:h%2Funter@h:5433/db", "u@h:5433/db"),
        ("u:hunter@h/db?sslmode=require", "u@h/db"),
        ("h/db", "h/db"),
        ("u:hunter@[::1]:5432/db", "u@[::1]:5432/db"),
        ("u:hunter@a:1,b:2/db", "u@a:1,b:2/db"),
    ],
)
def test_the_database_may_be_postgresql_and_its_password_is_never_shown(
    scheme: str, rest: str, label: str
) -> None:
    loaded = load(None, {"FRAZIL_DATABASE__URL": f"{scheme}://{rest}"})
    found = loaded.database_location
    assert isinstance(found, PostgresUrl)
    assert (found.url, str(found)) == (f"postgresql://{rest}", f"postgresql://{label}")
    assert "unter" not in f"{found!r} {loaded!r} {loaded} {loaded.model_dump()} {loaded.model_dump_json()}"


def test_settings_do_not_change() -> None:
    loaded = load(None, {})
    with pytest.raises(ValidationError):
        loaded.server.port = 5  # type: ignore[misc]
    with pytest.raises(ValidationError):
        loaded.server = loaded.server  # type: ignore[misc]


def test_every_setting_has_a_description_that_is_a_sentence() -> None:
    described = list(settings.documented())
    assert len(described) > 25
    for name, _, description in described:
        assert description.endswith("."), name
        assert description[0].isupper(), name


def test_ingest_beside_the_server_needs_its_file_and_leaves_its_other_variables_alone() -> None:
    others = {"FRAZIL_INGEST__CATALOG__TOKEN": "x", "FRAZIL_INGEST__KAFKA__GROUP": "g"}
    found = load(None, {"FRAZIL_INGEST__ENABLED": "true", "FRAZIL_INGEST__CONFIG": "i.toml", **others})
    assert (found.ingest.enabled, found.ingest.config) == (True, "i.toml")
    with pytest.raises(SettingsError, match=r"needs ingest\.config"):
        load(None, {"FRAZIL_INGEST__ENABLED": "true"})
