"""`Operation`: everything the API knows about one operation, for routing, reading and describing it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.wire import NOTHING, Shape, Struct
from table_format.jsontypes import JsonObject

Handler = Callable[[Call], Awaitable[JsonObject | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the service's model."""

    name: str
    """As in the model: `GetTableBucket`."""
    method: str
    path: str
    """As in the model: `/buckets/{tableBucketARN}`. A parameter is one segment, an ARN however it is written."""
    handler: Handler
    summary: str
    doc: str = ""
    status: int = 200
    path_shapes: Mapping[str, Shape] = field(default_factory=dict)
    """What parameters of the path must be that are neither ARNs nor names of namespaces and tables."""
    query: Struct = NOTHING
    body: Struct | None = None
    """None where a request has none: whatever comes is not read."""
    answer: Struct | None = None
    """None where a success has no body."""
    offered: bool = True
    """Whether it does anything; otherwise it only answers why not."""
    errors: tuple[str, ...] = ("BadRequestException", "NotFoundException")
    """Exceptions that it answers, beside `InternalServerErrorException`."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The segments of the path."""
        return tuple(self.path[1:].split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(part[1:-1] for part in self.parts if part.startswith("{"))
