"""ARNs of table buckets and tables, read from texts and raw paths.

A client puts an ARN into a path as one percent-encoded segment or with its slashes as they are; both are read alike.
Unlike `warehouse` of the Iceberg API, all of an ARN counts here: what it names may be deleted, and a bucket of the same
name in another account or region is another bucket.
"""

import re
from collections.abc import Sequence

from catalog_server.api.rawpath import decode
from catalog_server.services.arns import Arn, Arns
from table_format.errors import Invalid, NoSuchTable, NoSuchWarehouse

_ARN = re.compile(
    r"arn:(?P<partition>aws[-a-z0-9]*):(?P<service>[a-z0-9]+):(?P<region>[-a-z0-9]*):(?P<account>[0-9]{12}):"
    r"bucket/(?P<bucket>[a-z0-9_-]{3,63})(?:/table/(?P<table>[a-zA-Z0-9_-]{1,255}))?"
)
_START = "arn:"
_HALF = ":bucket"
"""How a segment ends whose ARN goes on in the next one."""
_MOST = 2048


def read(text: str, home: Arns) -> Arn:
    """The bucket or table that an ARN names.

    Raises:
        Invalid: it is no ARN of a table bucket or table.
        NoSuchWarehouse, NoSuchTable: of another service, region or account, so that nothing here can have it.
    """
    found = _ARN.fullmatch(text) if len(text) <= _MOST else None
    if found is None:
        raise Invalid(
            f"The specified ARN is not valid: {text[:200]!r} is not of the form {home.bucket('NAME')} "
            "or that with /table/ID"
        )
    bucket, table = found["bucket"], found["table"]
    at_home = (found["partition"], found["service"], found["region"], found["account"])
    if at_home != ("aws", "s3tables", home.region, home.account_id):
        what, missing = ("bucket", NoSuchWarehouse) if table is None else ("table", NoSuchTable)
        raise missing(
            f"The specified {what} does not exist. ARNs of this server begin with {home.bucket('')}"
        )
    return Arn(bucket=bucket, table_id=table)


def bucket_name(text: str, home: Arns) -> str:
    """The name in the ARN of a table bucket.

    Raises:
        Invalid: it is the ARN of something else.
        NoSuchWarehouse: as `read`.
    """
    arn = read(text, home)
    if arn.table_id is not None:
        raise Invalid("The specified ARN is not valid: it names a table, and a table bucket is needed")
    return arn.bucket


def segments(raw: Sequence[str]) -> list[str]:
    """The decoded segments of a raw path, an ARN with its slashes as they are being one of them.

    A table's ARN is only put together at the end of a path: elsewhere `table` may be a namespace of that name.

    Raises:
        Invalid: a segment can not be decoded.
    """
    found = [decode(segment, plus_is_space=False) for segment in raw]
    if len(found) > 2 and found[1].startswith(_START) and found[1].endswith(_HALF):
        found[1:3] = [f"{found[1]}/{found[2]}"]
    if len(found) == 4 and found[0] == "tag" and found[1].startswith(_START) and found[2] == "table":
        found[1:4] = ["/".join(found[1:4])]
    return found
