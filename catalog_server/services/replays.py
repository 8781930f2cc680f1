"""Requests with an Idempotency-Key: what was answered the first time is answered again."""

from collections.abc import Sequence

from catalog_server.services.commit_unit import Part
from catalog_server.services.documents import DocumentCache
from catalog_server.services.handles import Bucket, RequestKey, TableHandle
from catalog_server.services.principals import Principal
from catalog_server.store import idempotency, pointers
from catalog_server.store.engine import Database
from catalog_server.store.idempotency import KeyRow
from table_format.errors import Invalid, NoSuchFile
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject


class Replays:
    """Looks up and rebuilds earlier answers."""

    def __init__(self, database: Database, documents: DocumentCache) -> None:
        self._database = database
        self._documents = documents

    async def find(
        self, principal: Principal, bucket: Bucket, key: RequestKey | None
    ) -> list[TableHandle] | None:
        """What a request with the same key was answered, or None when there was none.

        Raises:
            Invalid: the key was used for another request.
        """
        if key is None:
            return None
        found = await self._database.read(idempotency.find, bucket.id, principal.name, key.key)
        if found is None:
            return None
        if found.fingerprint != key.fingerprint:
            raise Invalid(
                "this Idempotency-Key was used for another request: take a new key for each request"
            )
        return [await self._as_answered(bucket, told) for told in found.outcome["tables"]]

    async def _as_answered(self, bucket: Bucket, told: JsonObject) -> TableHandle:
        ident = TableIdent(Namespace(tuple(told["namespace"])), told["name"])
        row = await self._database.hot(pointers.read(bucket.name, ident))
        location = told["metadata-location"]
        try:
            document = await self._documents.load(location)
        except NoSuchFile:
            # Long replaced and deleted: the table as it is now says at least that the commit is in its past.
            if row is None:
                raise
            location = row.metadata_location
            document = await self._documents.load(location)
        return TableHandle(
            bucket=bucket.name, ident=ident, metadata_location=location, document=document, row=row
        )


def key_row(
    principal: Principal, bucket: Bucket, key: RequestKey | None, parts: Sequence[Part]
) -> KeyRow | None:
    """The row that remembers what a request with a key was answered."""
    if key is None:
        return None
    told = [
        {
            "namespace": list(part.planned.ident.namespace.levels),
            "name": part.planned.ident.name,
            "metadata-location": part.new_location
            or (part.planned.current.row.metadata_location if part.planned.current.row else None),
        }
        for part in parts
    ]
    return KeyRow(
        bucket_id=bucket.id,
        principal=principal.name,
        key=key.key,
        fingerprint=key.fingerprint,
        outcome={"tables": told},
    )
