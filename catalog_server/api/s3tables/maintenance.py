"""Maintenance configurations: the policies of this server, as far as S3 Tables has words for them.

A configuration that is put changes what it names and leaves the rest of the policy, which our own API may have set.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.shapes import BUCKET_ARN
from catalog_server.api.s3tables.wire import Struct, Text, Whole, refuse
from catalog_server.services.policies import PolicyScope
from maintenance.policies import PolicyType, defaults
from table_format.errors import VersionConflict
from table_format.jsontypes import JsonObject

POSITIVE = Whole(least=1)
STATUS = Text(choices=("enabled", "disabled"))
UNREFERENCED = PolicyType.UNREFERENCED.value
_ATTEMPTS = 10
_DAY_S, _HOUR_S, _MIB = 86_400, 3600, 1 << 20

# A setting of S3 Tables, and our own in a finer unit: the unit of the first in that of the second.
_FINER: Mapping[str, tuple[str, int]] = {
    "unreferencedDays": ("unreferencedSeconds", _DAY_S),
    "nonCurrentDays": ("nonCurrentSeconds", _DAY_S),
    "maxSnapshotAgeHours": ("maxSnapshotAgeSeconds", _HOUR_S),
    "targetFileSizeMB": ("targetFileSizeBytes", _MIB),
}
# Naming the first makes the second meaningless.
_OVERRULED = {"targetFileSizeMB": "tiers"}


def value_shape(types: Mapping[str, Struct]) -> Struct:
    """The shape of a configuration of these types of maintenance, each with the settings it has."""
    return Struct(members={"status": STATUS, "settings": Struct(members=types, union=True)})


BUCKET_TYPES = {
    UNREFERENCED: Struct(members={"unreferencedDays": POSITIVE, "nonCurrentDays": POSITIVE}),
}
_VALUE = value_shape(BUCKET_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a request changes of a policy."""

    status: str | None
    """None leaves it as it is, at this scope or from above."""
    settings: JsonObject


async def get_bucket_maintenance(call: Call) -> JsonObject:
    """Of a bucket, with the defaults where nothing is set."""
    bucket = call.bucket
    found = await configurations(call, PolicyScope(bucket=bucket), BUCKET_TYPES)
    return {"tableBucketARN": call.home.bucket(bucket), "configuration": found}


async def put_bucket_maintenance(call: Call) -> None:
    """Of a bucket."""
    await put(call, PolicyScope(bucket=call.bucket))


async def configurations(call: Call, scope: PolicyScope, types: Mapping[str, Struct]) -> JsonObject:
    """The configurations of these types at a scope, with the defaults where nothing is set.

    Raises:
        NotFound: there is no such scope.
    """
    views = await call.platform.policies.list(call.principal, scope)
    documents = {view.policy_type: view.document for view in views}
    return {kind: _configuration(kind, shape, documents.get(kind)) for kind, shape in types.items()}


async def put(call: Call, scope: PolicyScope) -> None:
    """Change the policy of the type in the path, at a scope, by the `value` in the body.

    Raises:
        Invalid: the settings are of another type, or can not be.
        NotFound: there is no such scope.
        VersionConflict: others change it all the time.
    """
    kind = call.path["type"]
    value = call.body["value"]
    settings = value.get("settings")
    if settings is not None and kind not in settings:
        refuse(next(iter(settings)), "value.settings", f"be {kind}, as the path says")
    changed = Change(status=value.get("status"), settings={} if settings is None else settings[kind])
    await change(call, scope, kind, changed)


async def change(call: Call, scope: PolicyScope, kind: str, changed: Change) -> None:
    """Change the policy of a type at a scope.

    Raises:
        Invalid, NotFound, VersionConflict: as `put`.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        views = await call.platform.policies.list(call.principal, scope)
        before = next((view for view in views if view.policy_type == kind), None)
        document = _merged(None if before is None else before.document, changed)
        version = 0 if before is None else before.version
        try:
            await call.platform.policies.put(call.principal, scope, kind, document, if_version=version)
        except VersionConflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _merged(before: JsonObject | None, changed: Change) -> JsonObject:
    kept = dict((before or {}).get("settings") or {})
    for name in changed.settings:
        for gone in (name, _FINER.get(name, (name, 1))[0], _OVERRULED.get(name, name)):
            kept.pop(gone, None)
    status = changed.status or (before or {}).get("status")
    return {"status": status, "settings": {**kept, **changed.settings}}


def _configuration(kind: str, shape: Struct, document: JsonObject | None) -> JsonObject:
    """A policy in the words of S3 Tables; a finer value is rounded down to its unit, but never to nothing."""
    standard = defaults(kind)
    own = (document or {}).get("settings") or {}
    settings: JsonObject = {}
    for name in shape.members:
        finer, unit = _FINER.get(name, (name, 1))
        if own.get(name) is not None:
            settings[name] = own[name]
        elif own.get(finer) is not None:
            settings[name] = max(1, int(own[finer]) // unit)
        else:
            settings[name] = standard["settings"][name]
    return {"status": (document or {}).get("status") or standard["status"], "settings": {kind: settings}}


_PATH = "/buckets/{tableBucketARN}/maintenance"

OPERATIONS = (
    Operation(
        name="GetTableBucketMaintenanceConfiguration",
        method="GET",
        path=_PATH,
        handler=get_bucket_maintenance,
        summary="What is set at a table bucket for its maintenance",
        doc="With the server's defaults where nothing is set.",
        answer=Struct(
            members={
                "tableBucketARN": BUCKET_ARN,
                "configuration": Struct(members={UNREFERENCED: _VALUE}),
            },
            required=("tableBucketARN", "configuration"),
        ),
    ),
    Operation(
        name="PutTableBucketMaintenanceConfiguration",
        method="PUT",
        path=_PATH + "/{type}",
        handler=put_bucket_maintenance,
        summary="Set the maintenance of a table bucket",
        doc="It holds for all tables of the bucket that set nothing else. What is not named stays as it is.",
        status=204,
        path_shapes={"type": Text(choices=tuple(BUCKET_TYPES))},
        body=Struct(members={"value": _VALUE}, required=("value",)),
        errors=("BadRequestException", "NotFoundException", "ConflictException"),
    ),
)
