"""The demo's Kafka side: a broker (librdkafka's mock cluster unless you bring your own), a registry, a producer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4  # what the mock cluster makes of every new topic


@contextmanager
def broker(bootstrap_servers: str | None) -> Iterator[str]:
    """Yields bootstrap servers; the mock cluster lives as long as the block."""
    if bootstrap_servers:
        yield bootstrap_servers
        return
    # The cluster belongs to this client object: it is gone when the object is.
    host = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    yield ",".join(f"{node.host}:{node.port}" for node in host.list_topics(timeout=10).brokers.values())
    host.flush(5)


def create_topics(bootstrap_servers: str, names: list[str]) -> None:
    """Create the topics on a real broker.

    Raises:
        SystemExit: it does not answer, or refuses.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in names]
    try:
        for future in admin.create_topics(topics, request_timeout=15).values():
            future.result(20)
    except (KafkaException, TimeoutError) as error:
        raise SystemExit(f"the broker at {bootstrap_servers} made no topics: {error}") from None


@contextmanager
def registry(schema: dict[str, Any], schema_id: int) -> Iterator[str]:
    """A schema registry that knows one schema; yields its URL (`GET /schemas/ids/{id}` as Confluent's)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.split("?")[0] == f"/schemas/ids/{schema_id}"
            body: dict[str, Any] = {"schema": orjson.dumps(schema).decode()}
            if not known:
                body = {"error_code": 40403, "message": "Schema not found"}
            data = orjson.dumps(body)
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Stay quiet: the demo prints its own progress."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Sender:
    """Produces one record a flight to each topic and remembers what the broker did not take."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 20,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._failed: list[str] = []

    def send(self, topic: str, key: str, value: bytes) -> None:
        """Queue one record; waits when the client's queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def flush(self, progress: Callable[[], None]) -> None:
        """Wait until the broker has everything.

        Raises:
            SystemExit: it refused a record.
        """
        while self._producer.flush(0.2):
            progress()
        if self._failed:
            raise SystemExit(
                f"the broker refused {len(self._failed)} records, the first with: {self._failed[0]}"
            )

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
