"""How the object store of each bucket is reached: its own properties over the installation's, and named credentials.

Secrets come from the settings only. Keys of the installation go to the installation's endpoint and nowhere else: a
bucket with an endpoint of its own names its credentials. Which bucket a location is in, and how that one is reached,
is asked of the database every time: another process may have made, changed or deleted it a moment ago.
"""

import asyncio
import difflib
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

import orjson

from catalog_server.services.probe import ProbeReport, probe
from catalog_server.store import buckets as rows
from catalog_server.store import pointers
from catalog_server.store.engine import Database
from table_format.clock import Ids
from table_format.errors import Internal, Invalid, NoSuchWarehouse
from table_format.ident import canonical, scheme, strip_slash
from table_format.io import resolve
from table_format.io.s3_settings import (
    ANONYMOUS,
    ENDPOINT,
    SCHEMES,
    check_all,
    check_endpoint,
    check_plain,
    for_clients,
    read_settings,
    refuse_secrets,
    without_secrets,
)
from table_format.io.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Installation:
    """What the settings say of object stores."""

    properties: Mapping[str, str] = field(repr=False)
    credentials: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Properties by name, for buckets to refer to."""

    def check(self) -> None:
        """Check all that the settings say of S3.

        Raises:
            Invalid: a property is unknown or has an impossible value; the message names the setting, and no secret.
        """
        settings = {"storage.properties": self.properties}
        plain = without_secrets(self.properties)
        for name, named in self.credentials.items():
            settings[f"storage.credentials.{name}"] = {**plain, **named}
        for setting, properties in settings.items():
            try:
                check_all(properties)
            except Invalid as error:
                raise Invalid(f"setting {setting}: {error.message}") from None


def takes_properties(location: str) -> bool:
    """Whether the store of that location is reached by properties; a local disk is not."""
    return scheme(canonical(location)) not in ("file", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The object stores of this process's buckets. Safe to share between threads."""

    database: Database
    installation: Installation
    threads: Executor
    ids: Ids

    def check(self, location: str, storage: Mapping[str, str], credentials: str | None) -> None:
        """Check what is to be stored as a bucket's way to its objects.

        Raises:
            Invalid: a property is unknown, secret or has an impossible value, or there are no such credentials.
            Unsupported: there is no object store for the location.
        """
        refuse_secrets(storage)
        self._check_endpoints(storage, credentials)
        if scheme(canonical(location)) in SCHEMES:
            check_plain(location, storage)
            read_settings(location, self.properties(storage, credentials))
            return  # making a client takes a moment, and asks nothing more
        if not takes_properties(location) and (storage or credentials):
            raise Invalid(f"storage properties and credentials are for object stores; {location} is none")
        self.open(location, storage, credentials)

    def properties(self, storage: Mapping[str, str], credentials: str | None) -> dict[str, str]:
        """All properties of a bucket's store, secrets included.

        Raises:
            Invalid: there are no such credentials, or none for an endpoint that is not the installation's.
        """
        base = dict(self.installation.properties)
        if credentials is not None:
            return {**without_secrets(base), **storage, **self._named(credentials)}
        own = check_endpoint(storage.get(ENDPOINT), ENDPOINT)
        if own is None or own == check_endpoint(base.get(ENDPOINT), ENDPOINT):
            return {**base, **storage}
        if storage.get(ANONYMOUS, "").strip().lower() != "true":
            raise Invalid(
                f"a bucket with an endpoint of its own ({own}) needs credentials of its own: name those of the setting "
                f"storage.credentials.NAME, or say {ANONYMOUS}=true"
            )
        return {**without_secrets(base), **storage}

    def for_clients(
        self, location: str, storage: Mapping[str, str], credentials: str | None
    ) -> dict[str, str]:
        """The properties by which engines reach a bucket's objects; they bring credentials of their own."""
        if scheme(canonical(location)) not in SCHEMES:
            return {}
        return for_clients(without_secrets(self.properties(storage, credentials)))

    async def told(self, bucket: str) -> bytes:
        """`for_clients` of the bucket of that name as JSON, `{}` when there is none: one indexed read."""
        return orjson.dumps(await self.told_properties(bucket))

    async def told_properties(self, bucket: str) -> dict[str, str]:
        """`for_clients` of the bucket of that name, empty when there is none: one indexed read."""
        found = await self.database.hot(pointers.bucket_storage(bucket))
        return {} if found is None else self.for_clients(found.location, found.storage, found.credentials)

    def open(self, location: str, storage: Mapping[str, str], credentials: str | None) -> ObjectStore:
        """The store of a place that is not a bucket's yet.

        Raises:
            Invalid, Unsupported: as `check`.
        """
        properties = self.properties(storage, credentials) if takes_properties(location) else {}
        return resolve.store_for(location, properties)

    def store_for(self, location: str) -> ObjectStore:
        """The store of a place in a bucket. Asks the database; for worker threads, never on the event loop.

        Raises:
            NoSuchWarehouse: the place is in no bucket.
            Unavailable: the database does not answer.
            Unsupported: there is no object store for the location.
        """
        return resolve.store_for(location, self.properties_of(location))

    def properties_of(self, location: str) -> dict[str, str]:
        """The properties of the store of a place in a bucket, secrets included; asks the database.

        Raises:
            NoSuchWarehouse, Unavailable: as `store_for`.
        """
        if not takes_properties(location):
            return {}
        _refuse_on_event_loop(location)
        found = self.database.read_now(rows.holding, _places_around(location))
        if not found:
            raise NoSuchWarehouse(f"No table bucket holds {location}: how its store is reached is not known")
        bucket = max(found, key=lambda holder: len(canonical(holder.location)))
        return self.properties(bucket.storage, bucket.credentials)

    async def probe(self, location: str, storage: Mapping[str, str], credentials: str | None) -> ProbeReport:
        """Try out what a bucket needs of a place; `probe` says how.

        Raises:
            Invalid, Unsupported: as `check`.
        """
        self.check(location, storage, credentials)

        def work() -> ProbeReport:
            return probe(self.open(location, storage, credentials), location, self.ids)

        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def _check_endpoints(self, storage: Mapping[str, str], credentials: str | None) -> None:
        """Refuse an endpoint that the credentials would overrule: their keys go to their own and nowhere else."""
        if credentials is None:
            return
        theirs = check_endpoint(self._named(credentials).get(ENDPOINT), ENDPOINT)
        own = check_endpoint(storage.get(ENDPOINT), ENDPOINT)
        if own is not None and theirs is not None and own != theirs:
            raise Invalid(
                f"credentials {credentials!r} are for the endpoint {theirs} only (setting "
                f"storage.credentials.{credentials}), not for {own}: leave {ENDPOINT} out, or name other credentials"
            )

    def _named(self, credentials: str) -> Mapping[str, str]:
        known = self.installation.credentials
        if credentials in known:
            return known[credentials]
        near = difflib.get_close_matches(credentials, sorted(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Invalid(
            f"no credentials {credentials!r} in the settings (storage.credentials.{credentials}){hint}"
        )


def _places_around(location: str) -> list[str]:
    """The location and every place above it, in each spelling of the scheme."""
    head, _, rest = strip_slash(canonical(location)).partition("://")
    segments = rest.split("/")
    paths = ["/".join(segments[:number]) for number in range(1, len(segments) + 1)]
    spellings = ("s3", "s3a", "s3n") if head == "s3" else (head,)
    return [f"{spelling}://{path}" for path in paths for spelling in spellings]


def _refuse_on_event_loop(location: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Internal(f"the store of {location} was asked for on the event loop")
