"""Producing over confluent-kafka (librdkafka): idempotent, acknowledged by all replicas, waited for."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from ingest_plugin.confluent import beside_consuming
from ingest_plugin.settings import KafkaSettings
from ingest_plugin.write.letter_topic import NotSent, Parcel

SECONDS = 20
_FIXED = {
    "enable.idempotence": True,
    "acks": "all",
    "message.timeout.ms": SECONDS * 1000,
    # A topic that is not there is told of soon: others wait meanwhile.
    "topic.metadata.propagation.max.ms": 3000,
    # What a topic takes is its own setting; the client's default is lower than that of many.
    "message.max.bytes": 64 * 1024 * 1024,
}
_FINAL = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
)


class ConfluentOutbox:
    """A producer, made when there is something to send."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._config: dict[str, Any] = {**beside_consuming(settings.client), **_FIXED, "log_level": "2"}
        self._producer: Producer | None = None

    def send(self, topic: str, parcels: Sequence[Parcel]) -> None:
        """Return once all are acknowledged by all replicas.

        Raises:
            NotSent: some are not.
        """
        if self._producer is None:
            self._producer = Producer(self._config)
        producer, failed, done = self._producer, {}, set()

        def delivered(place: int, error: KafkaError | None) -> None:
            done.add(place)
            if error is not None:
                failed[place] = error

        for place, parcel in enumerate(parcels):
            self._produce(producer, topic, parcel, lambda error, _, place=place: delivered(place, error))
        producer.flush(SECONDS + 5)
        left = [parcels[place] for place in range(len(parcels)) if place in failed or place not in done]
        if not left:
            return
        # Whatever is still under way must not arrive behind our back, and one that failed for good is of no more use.
        self._producer = None
        producer.purge()
        producer.flush(0)
        errors = list(failed.values())
        final = next((error for error in errors if error.code() in _FINAL), None)
        shown = final or next(iter(errors), None)
        raise NotSent("no answer in time" if shown is None else shown.str(), left, final=final is not None)

    @staticmethod
    def _produce(producer: Producer, topic: str, parcel: Parcel, delivered: Any) -> None:
        while True:
            try:
                producer.produce(
                    topic,
                    value=parcel.value,
                    key=parcel.key,
                    headers=list(parcel.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                delivered(error.args[0], None)
                return
            else:
                producer.poll(0)
                return
