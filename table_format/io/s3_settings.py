"""The properties of an S3 store, by the names that Iceberg's FileIO gives them, read into one frozen value.

Owns the names, their bounds, and which of them are secret. Secrets are in no message and no repr.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from table_format.errors import Invalid
from table_format.ident import scheme

SCHEMES = ("s3", "s3a", "s3n", "oss")
ENDPOINT = "s3.endpoint"
ANONYMOUS = "s3.anonymous"

SECRET = frozenset(
    {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "client.access-key-id",
        "client.secret-access-key",
        "client.session-token",
    }
)
PLAIN = frozenset(
    {
        ENDPOINT,
        "s3.client-endpoint",
        "s3.region",
        "client.region",
        "s3.path-style-access",
        ANONYMOUS,
        "s3.conditional-write",
        "s3.checksum-enabled",
        "s3.connect-timeout",
        "s3.request-timeout",
        "s3.max-connections",
        "s3.retry.num-retries",
        "s3.retry.min-wait-ms",
        "s3.retry.max-wait-ms",
        "s3.multipart.part-size-bytes",
    }
)

_LOOKS_SECRET = re.compile(r"secret|token|password|access-key|sas|account-key|private", re.IGNORECASE)
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_MIB = 1 << 20
# Alibaba's names for regions begin with "oss-" in host names only.
_OSS_HOST = "https://s3.oss-{region}.aliyuncs.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How one S3 store is reached; equal settings share a client."""

    endpoint: str | None = None
    """None: Amazon S3 of the region."""
    region: str | None = None
    path_style: bool | None = None
    """None: with an endpoint of its own yes, for Amazon S3 no."""
    anonymous: bool = False
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    conditional_write: bool = True
    """Whether the store refuses a write to an existing key when asked to (`If-None-Match: *`)."""
    checksums: bool = False
    """Whether every upload carries a CRC32, which not every store takes."""
    connect_timeout_seconds: float = 5.0
    request_timeout_seconds: float = 30.0
    """Longest silence of the store while it is to answer."""
    max_connections: int = 64
    retries: int = 8
    """Repeats of one request at most."""
    min_wait_ms: int = 50
    max_wait_ms: int = 10_000
    part_size: int = 16 * _MIB

    @property
    def shown(self) -> str:
        """The store for people, without anything secret."""
        return self.endpoint or f"Amazon S3 ({self.region or 'region of the environment'})"


def read_settings(location: str, properties: Mapping[str, str]) -> S3Settings:
    """The settings of the store of that location.

    Raises:
        Invalid: a property has an impossible value; the message names it.
    """
    key, secret = _credential(properties, "access-key-id"), _credential(properties, "secret-access-key")
    if (key is None) != (secret is None):
        raise Invalid("storage properties s3.access-key-id and s3.secret-access-key must be given together")
    region = _region(properties.get("s3.region") or properties.get("client.region"))
    endpoint = check_endpoint(properties.get(ENDPOINT), ENDPOINT)
    path_style = _flag(properties, "s3.path-style-access")
    if scheme(location) == "oss":
        endpoint, path_style = endpoint or _oss_endpoint(region), bool(path_style)
    return S3Settings(
        endpoint=endpoint,
        region=region,
        path_style=path_style,
        anonymous=_flag(properties, ANONYMOUS) is True,
        access_key_id=key,
        secret_access_key=secret,
        session_token=_credential(properties, "session-token"),
        conditional_write=_flag(properties, "s3.conditional-write") is not False,
        checksums=_flag(properties, "s3.checksum-enabled") is True,
        connect_timeout_seconds=_number(properties, "s3.connect-timeout", 5.0, 0.1, 300),
        request_timeout_seconds=_number(properties, "s3.request-timeout", 30.0, 0.1, 3600),
        max_connections=int(_number(properties, "s3.max-connections", 64, 1, 1000)),
        retries=int(_number(properties, "s3.retry.num-retries", 8, 0, 50)),
        min_wait_ms=int(_number(properties, "s3.retry.min-wait-ms", 50, 0, 60_000)),
        max_wait_ms=int(_number(properties, "s3.retry.max-wait-ms", 10_000, 0, 600_000)),
        part_size=int(
            _number(properties, "s3.multipart.part-size-bytes", 16 * _MIB, 5 * _MIB, 5 * 1024 * _MIB)
        ),
    )


def check_plain(location: str, properties: Mapping[str, str]) -> None:
    """Check properties that are stored and shown: all known, none secret, each value possible.

    Raises:
        Invalid: one is not; the message never holds a value that may be secret.
    """
    refuse_secrets(properties)
    for name in properties:
        if name not in PLAIN:
            raise _unknown(name, PLAIN)
    check_endpoint(properties.get("s3.client-endpoint"), "s3.client-endpoint")
    read_settings(location, properties)


def check_all(properties: Mapping[str, str]) -> None:
    """Check properties that may hold secrets, and some for other stores: those of S3 are known, their values possible.

    Raises:
        Invalid: one is not; the message never holds the value of a secret.
    """
    for name in properties:
        if name.startswith("s3.") and name not in PLAIN | SECRET:
            raise _unknown(name, PLAIN | SECRET)
    check_endpoint(properties.get("s3.client-endpoint"), "s3.client-endpoint")
    read_settings("s3://any", properties)


def refuse_secrets(properties: Mapping[str, str]) -> None:
    """Check that no property is a secret, whatever store it is for.

    Raises:
        Invalid: one is, or looks it by its name.
    """
    for name in properties:
        if name in SECRET or _LOOKS_SECRET.search(name):
            raise Invalid(
                f"storage property {name!r} is a secret and is not stored with a bucket: put it into the setting "
                "storage.credentials.NAME, and give the bucket credentials NAME"
            )


def for_clients(properties: Mapping[str, str]) -> dict[str, str]:
    """What engines are told of the store, so that they reach it too: nothing secret, by all names that they read."""
    told: dict[str, str] = {}
    if endpoint := properties.get("s3.client-endpoint") or properties.get(ENDPOINT):
        told[ENDPOINT] = endpoint
    if region := properties.get("s3.region") or properties.get("client.region"):
        told["s3.region"] = told["client.region"] = region
    path_style = _flag(properties, "s3.path-style-access")
    if path_style is None and endpoint:
        path_style = True  # as our own client does; engines differ in what they take for granted
    if path_style is not None:
        told["s3.path-style-access"] = str(path_style).lower()
        if not path_style:
            told["s3.force-virtual-addressing"] = "true"
    if _flag(properties, ANONYMOUS):
        told[ANONYMOUS] = "true"
    return told


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Those properties that neither are secret nor look it."""
    return {
        name: value
        for name, value in properties.items()
        if name not in SECRET and not _LOOKS_SECRET.search(name)
    }


def check_endpoint(endpoint: str | None, name: str) -> str | None:
    """The endpoint without a trailing slash, None for none.

    Raises:
        Invalid: it is no URL of a host; the message does not repeat it, as it may hold a password.
    """
    if not endpoint:
        return None
    try:
        parts = urlsplit(endpoint)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        raise _no_url(name) from None
    extra = "@" in parts.netloc or parts.query or parts.fragment or parts.path not in ("", "/")
    if wrong or extra or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise _no_url(name)
    return endpoint.rstrip("/")


def _unknown(name: str, known: Iterable[str]) -> Invalid:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.0)[0]
    return Invalid(f"unknown storage property {name!r}; the nearest one is {near}")


def _no_url(name: str) -> Invalid:
    return Invalid(
        f"storage property {name} must be http://HOST:PORT or https://HOST, without user, path or query"
    )


def _oss_endpoint(region: str | None) -> str:
    if region is None:
        raise Invalid(
            "an oss:// location needs the storage property s3.region (cn-hangzhou, say) or s3.endpoint "
            "(https://s3.oss-cn-hangzhou.aliyuncs.com)"
        )
    return _OSS_HOST.format(region=region.removeprefix("oss-"))


def _credential(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(f"s3.{name}") or properties.get(f"client.{name}") or None


def _region(text: str | None) -> str | None:
    if text and not _REGION.fullmatch(text):
        raise Invalid(f"storage property s3.region: {text!r} is not the name of a region")
    return text or None


def _flag(properties: Mapping[str, str], name: str) -> bool | None:
    text = properties.get(name)
    if text is None:
        return None
    known = {"true": True, "false": False}.get(text.strip().lower())
    if known is None:
        raise Invalid(f"storage property {name}: {text!r} is neither true nor false")
    return known


def _number(properties: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise Invalid(f"storage property {name}: {text!r} is not a number from {least:g} to {most:g}")
    return value
