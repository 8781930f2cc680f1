"""The S3 client of a store, and how its requests are repeated: with jitter, slower when asked to be, on a budget.

The client library repeats nothing itself: only here it is known which work may be done twice.
"""

import base64
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from table_format.clock import Clock, Ids
from table_format.errors import Invalid
from table_format.io.s3_errors import Failure, failure_of
from table_format.io.s3_settings import S3Settings

T = TypeVar("T")

_LONGEST_SECONDS = 60.0  # after that nothing is tried again, whatever the budget
_BUDGET, _RETRY_COST, _SUCCESS_GIVES = 500, 5, 1
_THROTTLED_DOUBLINGS = 3

_making = threading.Lock()  # clients are safe to use in several threads at once, but not to make


@functools.cache
def _session() -> Any:
    """One for all clients: it has read the library's descriptions, and knows the credentials of the surroundings."""
    return boto3.session.Session()


def connect(settings: S3Settings) -> Any:
    """A client for those settings; safe to share between threads. Opens no connection yet.

    Raises:
        Invalid: no client can be made of them.
    """
    style: Any = "auto" if settings.path_style is None else "path" if settings.path_style else "virtual"
    checksums: Any = "when_supported" if settings.checksums else "when_required"
    config = Config(
        signature_version=UNSIGNED if settings.anonymous else None,
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.request_timeout_seconds,
        max_pool_connections=settings.max_connections,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": style},
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
        user_agent_extra="frazil",
        tcp_keepalive=True,
    )
    with _making:
        try:
            session = _session()
            region = settings.region or session.region_name or ("us-east-1" if settings.endpoint else None)
            client = session.client(
                "s3",
                endpoint_url=settings.endpoint,
                region_name=region,
                aws_access_key_id=settings.access_key_id,
                aws_secret_access_key=settings.secret_access_key,
                aws_session_token=settings.session_token,
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise Invalid(f"no S3 client can be made for {settings.shown} ({type(error).__name__})") from None
    if settings.endpoint is not None:
        client.meta.events.register("before-sign.s3.DeleteObjects", _with_md5)
    return client


def _with_md5(request: Any, **_: Any) -> None:
    """Many compatible stores know no other checksum of a list of keys than the oldest one."""
    for name in [
        name for name in request.headers if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-check"))
    ]:
        del request.headers[name]
    body = request.body if isinstance(request.body, bytes) else bytes(request.body or b"")
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


class Tries:
    """What the tries of one request have come to so far."""

    __slots__ = ("unsure",)

    def __init__(self) -> None:
        self.unsure = False
        """Whether an earlier try, that failed for all that is known, may have been carried out."""


class Repeater:
    """Runs requests of one client, again where that may help; safe to share between threads."""

    def __init__(self, settings: S3Settings, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._secrets = [
            text
            for text in (settings.secret_access_key, settings.session_token, settings.access_key_id)
            if text
        ]
        self._lock = threading.Lock()
        self._budget = _BUDGET

    def run(self, path: str, work: Callable[[Tries], T]) -> T:
        """Do the work, which makes one request and may be done again.

        Raises:
            TableFormatError: what the last failure amounts to.
        """
        tries = Tries()
        started = self._clock.monotonic()
        for number in range(self._settings.retries + 1):
            try:
                result = work(tries)
            except (ClientError, BotoCoreError) as error:
                failure = failure_of(error, path, self._settings.shown, self._secrets)
                tries.unsure = tries.unsure or failure.unsure
                pause = self._pause(failure, number)
                left = _LONGEST_SECONDS - (self._clock.monotonic() - started)
                if not failure.again or number == self._settings.retries or pause > left or not self._pay():
                    raise failure.error from None  # what it is made from names headers and addresses
                self._clock.sleep(pause)
            else:
                self._earn()
                return result
        raise AssertionError  # the last round returns or raises

    def _pause(self, failure: Failure, number: int) -> float:
        settings = self._settings
        doublings = number + (_THROTTLED_DOUBLINGS if failure.throttled else 0)
        most = min(settings.max_wait_ms, settings.min_wait_ms * 2**doublings) / 1000
        pause = self._ids.jitter(most / 2 if failure.throttled else 0, most)
        return max(pause, min(failure.wait_seconds, settings.max_wait_ms / 1000))

    def _pay(self) -> bool:
        with self._lock:
            if self._budget < _RETRY_COST:
                return False  # the store is down for everybody: more requests help nobody
            self._budget -= _RETRY_COST
            return True

    def _earn(self) -> None:
        with self._lock:
            self._budget = min(_BUDGET, self._budget + _SUCCESS_GIVES)
