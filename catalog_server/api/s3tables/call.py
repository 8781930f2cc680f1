"""`Call`: one request to the S3 Tables API with its path, query and body read; and what handlers need of it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from catalog_server.api.s3tables import arn
from catalog_server.bootstrap import Platform
from catalog_server.services.arns import Arns
from catalog_server.services.paging import MAX_PAGE_SIZE, PageRequest
from catalog_server.services.principals import Principal
from catalog_server.services.resource_settings import Locate, of_arn, of_bucket, of_table
from table_format.errors import Invalid, NoSuchNamespace, NoSuchTable
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What an operation needs to know about its request."""

    platform: Platform
    principal: Principal
    path: dict[str, str]
    """The decoded parameters of the path; unchecked, as they may name what only other APIs can make."""
    query: JsonObject
    body: JsonObject
    """Query and body as their shapes say."""

    @property
    def home(self) -> Arns:
        """Makes the ARNs of this server."""
        return self.platform.arns

    @property
    def bucket(self) -> str:
        """The name of the table bucket in the path.

        Raises:
            Invalid: it is no ARN of a table bucket.
            NoSuchWarehouse: none of this server.
        """
        return arn.bucket_name(self.path["tableBucketARN"], self.home)

    @property
    def namespace(self) -> Namespace:
        """The namespace in the path.

        Raises:
            NoSuchNamespace: no namespace that this API shows can have that name.
        """
        return plain_namespace(self.path["namespace"])

    @property
    def table(self) -> TableIdent:
        """The table in the path.

        Raises:
            NoSuchTable: no table that this API shows can have that name.
        """
        return plain_table(self.path["namespace"], self.path["name"])

    @property
    def is_table(self) -> bool:
        """Whether the path names a table, and not only a bucket."""
        return "name" in self.path

    @property
    def what(self) -> str:
        """What the path names, for messages."""
        return "table" if self.is_table else "bucket"

    @property
    def located(self) -> Locate:
        """Finds the resource id of the table or bucket that the path names.

        Raises:
            Invalid, NoSuchWarehouse, NoSuchTable: as `bucket`, `table` and `arn.read`.
        """
        if "resourceArn" in self.path:
            return of_arn(arn.read(self.path["resourceArn"], self.home))
        return of_table(self.bucket, self.table) if self.is_table else of_bucket(self.bucket)

    def page(self, size: str) -> PageRequest:
        """The page asked for; `size` is the parameter that bounds it."""
        return PageRequest(
            token=self.query.get("continuationToken", ""), size=self.query.get(size, MAX_PAGE_SIZE)
        )


def plain(name: str) -> bool:
    """Whether this API can show a namespace or table of that name."""
    return 0 < len(name) <= 255 and all(one in _PLAIN for one in name)


def plain_namespace(name: str) -> Namespace:
    """The namespace of that name.

    Raises:
        NoSuchNamespace: no namespace that this API shows can have it.
    """
    if not plain(name):
        raise NoSuchNamespace("The specified namespace does not exist.")
    return Namespace((name,))


def plain_table(namespace: str, name: str) -> TableIdent:
    """The table of that name.

    Raises:
        NoSuchTable: no table that this API shows can have it.
    """
    if not (plain(namespace) and plain(name)):
        raise NoSuchTable("The specified table does not exist.")
    return TableIdent(Namespace((namespace,)), name)


def timestamp(at_ms: int) -> str:
    """A time as the model has it.

    Raises:
        Invalid: a year that no calendar has.
    """
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        raise Invalid(f"{at_ms} ms is no time") from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
