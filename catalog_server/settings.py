"""The settings of the server: nested, frozen, from the environment (`FRAZIL_`, nested by `__`) and a TOML file.

Owns names, types, bounds and descriptions; holds values only, never an object. The environment wins over the
file, and options of the command line over both. A setting nobody knows is an error, never ignored.
"""

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, Field, SecretStr, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from catalog_server.limits import Group, LimitSettings, MaintenanceSettings, ReportSettings, StorageSettings

ENV_PREFIX = "FRAZIL_"
NESTED = "__"
# Other commands of the same program read these; they are not settings of the server.
FOREIGN_ENV_PREFIXES = ("FRAZIL_DEMO_", "FRAZIL_INGEST_", "FRAZIL_TEST_")
# But these two are: what else begins so is read by the ingest process itself.
_INGEST_VARIABLES = ("FRAZIL_INGEST__ENABLED", "FRAZIL_INGEST__CONFIG")


class StartError(Exception):
    """The server can not start as asked; the message is one line for the person who started it."""


class SettingsError(StartError):
    """A setting is unknown or has an impossible value."""


@dataclasses.dataclass(frozen=True, slots=True)
class PostgresUrl:
    """Where a PostgreSQL database is; shown without the password."""

    url: str = dataclasses.field(repr=False)
    """With the password, as the driver takes it."""
    label: str
    """For people: postgresql://user@host:port/database."""

    def __str__(self) -> str:
        return self.label


class ServerSettings(Group):
    """Where the server listens and keeps its own files."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8181, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data_dir: Path = Field(
        Path("frazil-data"),
        description="Directory of the embedded database and of the default bucket; made when missing.",
    )
    drain_seconds: float = Field(
        30.0, ge=0, description="How long a stopping server waits for requests and jobs in flight."
    )
    head_seconds: float = Field(
        30.0, gt=0, description="How long a client may take to send a request's line and headers."
    )
    body_seconds: float = Field(
        300.0, gt=0, description="How long a client may take to send a request's body."
    )


class DatabaseSettings(Group):
    """The database with the table pointers."""

    url: SecretStr = Field(
        SecretStr(""),
        description="Database URL, postgresql+asyncpg://user:password@host:port/database or "
        "sqlite:////absolute/path.db; empty: SQLite, frazil.db in the data directory.",
    )
    busy_timeout_seconds: float = Field(
        5.0, ge=0, description="How long a write waits for another process that writes before answering 503."
    )
    readers: int = Field(4, ge=1, le=64, description="SQLite: threads that read.")
    max_batch: int = Field(
        128, ge=1, description="SQLite: most writes that share one durable commit (one disk flush)."
    )
    max_queued_writes: int = Field(
        10_000, ge=1, description="SQLite: writes that may wait; beyond that requests are answered 503."
    )
    pool_size: int = Field(
        8, ge=1, le=1000, description="PostgreSQL: connections of one process for reads and writes."
    )
    hot_pool_size: int = Field(
        4, ge=1, le=1000, description="PostgreSQL: connections of one process that look pointers up."
    )
    acquire_timeout_seconds: float = Field(
        5.0, gt=0, description="PostgreSQL: how long to wait for a free connection before answering 503."
    )
    connect_timeout_seconds: float = Field(
        5.0, gt=0, description="PostgreSQL: how long making a connection may take."
    )
    statement_timeout_seconds: float = Field(
        30.0, gt=0, description="PostgreSQL: how long one statement may take before it is cancelled."
    )


class IcebergSettings(Group):
    """How the Iceberg API presents itself to its clients."""

    namespace_separator: str = Field(
        "%1F",
        pattern="^(%1F|[.:$~!;@])$",
        description="What stands between the levels of a namespace: %1F, or one of .:$~!;@ that no level then holds.",
    )

    @property
    def separator(self) -> str:
        """`namespace_separator`, decoded."""
        return unquote(self.namespace_separator)


class S3TablesSettings(Group):
    """How the S3 Tables API presents itself to its clients."""

    region: str = Field(
        "us-east-1",
        pattern="^[a-z0-9-]{1,40}$",
        description="The region in the ARNs of buckets and tables; clients must name the same one.",
    )
    account_id: str = Field(
        "000000000000",
        pattern="^[0-9]{12}$",
        description="The account in the ARNs of buckets and tables, and the owner of everything.",
    )


class DropSettings(Group):
    """Tables that were dropped without purge."""

    keep_days: float = Field(
        7.0,
        ge=0,
        le=3650,
        description="How long a dropped table can be restored; 0 forgets it at once. Its files stay in either case.",
    )


class PlanningSettings(Group):
    """Scan planning on the server, for clients that ask for it."""

    processes: int = Field(
        2,
        ge=0,
        le=64,
        description="Most planning processes per API process, started when needed; 0 plans in threads.",
    )
    queue: int = Field(
        32, ge=0, description="Plans that may wait for a planning process; beyond that they are answered 503."
    )
    thread_files: int = Field(
        100,
        ge=0,
        description="A snapshot of at most that many files is planned in a thread of the API process.",
    )
    page_files: int = Field(2000, ge=1, description="Most data files in one answer.")
    page_mb: int = Field(16, ge=1, description="About the most JSON in one answer, in MiB.")
    wait_seconds: float = Field(
        60.0, gt=0, description="How long a client waits for its plan before it is told to ask again for it."
    )
    timeout_seconds: float = Field(
        300.0, gt=0, description="How long planning one answer may take before it is given up."
    )
    lifetime_minutes: float = Field(60.0, gt=0, description="How long the pages of a plan can be fetched.")
    idle_seconds: float = Field(60.0, gt=0, description="Planning processes end when idle for that long.")


class IngestGroup(Group):
    """Ingest beside the server."""

    enabled: bool = Field(default=False, description="Run `frazil ingest run` as a child of `frazil serve`.")
    config: str = Field(
        default="",
        description="Ingest's configuration file; its `catalog.uri` may be left out, then it is this server.",
    )


class TelemetrySettings(Group):
    """Logs."""

    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="Least severe log level that is written."
    )
    log_format: str = Field(
        "auto",
        pattern="^(auto|json|text)$",
        description="Log lines as json or text; auto: text on a terminal.",
    )


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTED,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    server: ServerSettings = ServerSettings.model_validate({})
    database: DatabaseSettings = DatabaseSettings.model_validate({})
    storage: StorageSettings = StorageSettings.model_validate({})
    iceberg: IcebergSettings = IcebergSettings.model_validate({})
    s3tables: S3TablesSettings = S3TablesSettings.model_validate({})
    maintenance: MaintenanceSettings = MaintenanceSettings.model_validate({})
    drops: DropSettings = DropSettings.model_validate({})
    planning: PlanningSettings = PlanningSettings.model_validate({})
    limits: LimitSettings = LimitSettings.model_validate({})
    reports: ReportSettings = ReportSettings.model_validate({})
    ingest: IngestGroup = IngestGroup.model_validate({})
    telemetry: TelemetrySettings = TelemetrySettings.model_validate({})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` passes: the environment is merged there, so that a test can give its own."""
        return (init_settings,)

    @property
    def database_location(self) -> Path | PostgresUrl:
        """The SQLite file, or where PostgreSQL is.

        Raises:
            SettingsError: the URL names neither.
        """
        url = self.database.url.get_secret_value()
        if not url:
            return self.server.data_dir / "frazil.db"
        for prefix in ("sqlite+aiosqlite:///", "sqlite:///"):
            if url.startswith(prefix) and len(url) > len(prefix):
                path = Path(url.removeprefix(prefix))
                if not path.is_absolute():
                    raise SettingsError(
                        f"setting database.url: write the absolute path of the file, {prefix}/directory/{path}"
                    )
                return path
        for prefix in ("postgresql+asyncpg://", "postgresql://", "postgres://"):
            if url.startswith(prefix):
                return _postgres(url.removeprefix(prefix))
        raise SettingsError(
            "setting database.url must be postgresql+asyncpg://user:password@host:port/database or "
            "sqlite:////absolute/path.db (or empty)"
        )


def load(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings from file, environment and overrides ("server.port": 1), the later winning.

    Raises:
        SettingsError: one line that names the setting and what to do.
    """
    known = dict(_fields())
    values: dict[str, Any] = {}
    if config is not None:
        for name, value in _flatten(_read_toml(config), known):
            _require_known(name, known, f"in {config}")
            values[name] = value
    for name, value, variable in _from_environment(os.environ if environ is None else environ):
        _require_known(name, known, f"(environment variable {variable})")
        values[name] = value
    for name, value in (overrides or {}).items():
        _require_known(name, known, "on the command line")
        values[name] = value
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        group, _, field = name.partition(".")
        nested.setdefault(group, {})[field] = value
    try:
        settings = Settings(**nested)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None
    _ = settings.database_location
    if settings.ingest.enabled and not settings.ingest.config:
        raise SettingsError("setting ingest.enabled needs ingest.config, the file that lists the topics")
    return settings


def _postgres(rest: str) -> PostgresUrl:
    url = f"postgresql://{rest}"
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None  # several hosts: the driver tells them apart
    except ValueError:
        parts = None
    if parts is None or parts.fragment or "@" in parts.path or not parts.path.strip("/"):
        # Never quote the URL here: what is wrong with it may be a part of the password.
        raise SettingsError(
            "setting database.url is not of the form postgresql+asyncpg://user:password@host:port/database; "
            "write special characters of the password as %XX"
        )
    credentials, at, hosts = parts.netloc.rpartition("@")
    return PostgresUrl(url, f"postgresql://{credentials.partition(':')[0]}{at}{hosts}{parts.path}")


def documented() -> Iterator[tuple[str, str, str]]:
    """Every setting as (name, default, description), for the reference page and the test of it."""
    for name, field in _fields():
        default = field.get_default(call_default_factory=True)
        yield name, str(default), field.description or ""


def _fields() -> Iterator[tuple[str, Any]]:
    for group, group_field in Settings.model_fields.items():
        group_type = group_field.annotation
        if not (isinstance(group_type, type) and issubclass(group_type, BaseModel)):
            raise TypeError(f"settings group {group} is not a model")
        for name, field in group_type.model_fields.items():
            yield f"{group}.{name}", field


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path} can not be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} is not TOML: {error}") from None


def _flatten(document: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for group, content in document.items():
        if not isinstance(content, dict):
            yield group, content
            continue
        for name, value in content.items():
            yield f"{group}.{name}", value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    maps: dict[str, tuple[dict[str, Any], str]] = {}
    for variable, text in sorted(environ.items()):
        upper = variable.upper()
        foreign = upper.startswith(FOREIGN_ENV_PREFIXES) and upper not in _INGEST_VARIABLES
        if not upper.startswith(ENV_PREFIX) or foreign:
            continue
        parts = variable[len(ENV_PREFIX) :].lower().split(NESTED)
        name = ".".join(parts)
        if name.startswith("storage.properties."):
            # A map of its own keys; the case of a key counts, and a dot is written as an underscore elsewhere.
            key = variable[len(ENV_PREFIX) :].split(NESTED, 2)[2]
            maps.setdefault("storage.properties", ({}, variable))[0][key] = text
        elif name == "storage.properties":
            maps.setdefault(name, ({}, variable))[0].update(_texts(text, variable))
        elif name.startswith("storage.credentials"):
            _add_credentials(maps.setdefault("storage.credentials", ({}, variable))[0], variable, text)
        else:
            yield name, text, variable
    for name, (mapping, variable) in maps.items():
        yield name, mapping, variable


def _add_credentials(known: dict[str, dict[str, str]], variable: str, text: str) -> None:
    """Of FRAZIL_STORAGE__CREDENTIALS__NAME, a JSON object, or …__NAME__KEY, one of its properties."""
    path = variable[len(ENV_PREFIX) :].split(NESTED, 3)
    if len(path) < 3:
        raise SettingsError(
            f"environment variable {variable}: write {variable}__NAME, a JSON object of texts, for each NAME"
        )
    named = known.setdefault(path[2].lower(), {})
    named.update(_texts(text, variable) if len(path) == 3 else {path[3]: text})


def _texts(text: str, variable: str) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(text, strict=True)
    except ValidationError:  # its message is not for people, and the text may hold credentials
        raise SettingsError(
            f'environment variable {variable} must be a JSON object of texts: {{"key": "value"}}'
        ) from None


def _require_known(name: str, known: Mapping[str, Any], where: str) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    raise SettingsError(f"unknown setting {name} {where}; the nearest one is {near[0]}")


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    return f"setting {name}: {first['msg']}"
