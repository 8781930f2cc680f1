"""One real Kafka broker (KRaft, one process) from Maven jars, on free loopback ports.

The jars are fetched once (`tests/jars.py`). Needs `java` (17 or newer) and `mvn` on the path.
"""

import base64
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import jars

HERE = Path(__file__).parent
READY = "Kafka Server started"
START_SECONDS = 120


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class RealBroker:
    """A broker whose data survive `kill` and `start`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self._controller_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = jars.fetched(HERE / "pom.xml", "kafka")
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "server.properties"
        self._config.write_text(self._properties())
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._config))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until the broker answers."""
        log = self.directory / "broker.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._config)),
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        end = time.monotonic() + START_SECONDS
        while READY not in log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the broker did not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def _command(self, main: str, *arguments: str) -> list[str]:
        java = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
        java += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "-cp", f"{self._jars}/*"]
        return [*java, main, *arguments]

    def _java(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(main, *arguments), capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{main}: {(done.stdout + done.stderr)[-2000:]}")

    def _properties(self) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "num.partitions": "1",
            # One node has to do for the internal topics.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Tests do not want to wait.
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "300",
            "group.consumer.heartbeat.interval.ms": "1000",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "log.cleaner.dedupe.buffer.size": "16777216",
            "log.cleaner.backoff.ms": "500",
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextmanager
def real_broker(directory: Path) -> Iterator[RealBroker]:
    """A running broker for the length of the block."""
    broker = RealBroker(directory)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
