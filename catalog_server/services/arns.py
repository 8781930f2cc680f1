"""Amazon resource names of buckets and tables, as S3 Tables has them.

`arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME` and `…:bucket/NAME/table/RESOURCE_ID`. Region and account are settings,
with which answers are made; in an ARN that comes in they are read and not compared, so that those that clients have
written down stay good when the settings change.
"""

import re
from dataclasses import dataclass

from table_format.errors import Invalid

_ARN = re.compile(
    r"arn:aws[a-z-]*:s3tables:(?P<region>[a-z0-9-]*):(?P<account>[0-9]{12}|):"
    r"bucket/(?P<bucket>[^/]+)(?:/table/(?P<table>[^/]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arn:
    """What an ARN names: a bucket, or a table in it by its resource id."""

    bucket: str
    table_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arns:
    """Makes ARNs."""

    region: str
    account_id: str

    def bucket(self, name: str) -> str:
        """The ARN of a bucket."""
        return f"arn:aws:s3tables:{self.region}:{self.account_id}:bucket/{name}"

    def table(self, bucket: str, resource_id: str) -> str:
        """The ARN of a table."""
        return f"{self.bucket(bucket)}/table/{resource_id}"


def parse(text: str) -> Arn:
    """What an ARN names.

    Raises:
        Invalid: it is not the ARN of a bucket or table.
    """
    match = _ARN.fullmatch(text)
    if match is None:
        raise Invalid(
            f"{text[:200]!r} is not the ARN of a table bucket or table: "
            "write arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME"
        )
    return Arn(bucket=match["bucket"], table_id=match["table"])
