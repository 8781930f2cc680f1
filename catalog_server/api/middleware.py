"""Request ids, access log lines and request metrics, around everything the server answers."""

import re
from functools import lru_cache

import structlog
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from catalog_server.telemetry import REQUEST_SECONDS, REQUESTS
from table_format.clock import Clock, Ids

_log = structlog.get_logger(__name__)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_SANE_ID = re.compile(rb"^[A-Za-z0-9._:-]{1,64}$")


class RequestContext:
    """ASGI middleware: binds `request_id` to every log line of a request and answers it as X-Request-Id."""

    def __init__(self, app: ASGIApp, *, clock: Clock, ids: Ids) -> None:
        self.app = app
        self._clock = clock
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection event."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = self._request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = self._clock.monotonic()
        status = 0  # the client may go away before there is one

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # A list of its own: that of a response is made once for all who get it.
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            status = status or 500  # what the server makes of it
            raise
        finally:
            seconds = self._clock.monotonic() - started
            door, method = _door(scope["path"]), _known_method(scope["method"])
            _counter(door, method, status).inc()
            _histogram(door, method).observe(seconds)
            _log.debug("request", method=scope["method"], path=scope["path"], status=status, seconds=seconds)
            structlog.contextvars.unbind_contextvars("request_id")

    def _request_id(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _SANE_ID.match(value):
                return str(value, "ascii")
        return self._ids.uuid()


# Finding a metric by its labels costs more than counting; the methods are few, so the caches are small.
@lru_cache(maxsize=1024)
def _counter(door: str, method: str, status: int) -> Counter:
    return REQUESTS.labels(door, method, str(status))


@lru_cache(maxsize=256)
def _histogram(door: str, method: str) -> Histogram:
    return REQUEST_SECONDS.labels(door, method)


def _known_method(method: str) -> str:
    """A client may send any word as its method; a label must not grow with that."""
    return method if method in _METHODS else "other"


def _door(path: str) -> str:
    """Which part of the server was asked; few values, since it labels a metric."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return first if first in {"iceberg", "s3tables", "api", "health", "metrics"} else "other"
