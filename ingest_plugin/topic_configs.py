"""Settings that were set on topics themselves, asked of the brokers by confluent-kafka's admin client."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from table_format.errors import Forbidden, Unavailable

_AT_ONCE = 500
_SET_ON_THE_TOPIC = 1
"""Where a setting comes from, in the protocol: DYNAMIC_TOPIC_CONFIG."""
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART,)
_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def own_settings(
    client: AdminClient, topics: Collection[str], prefix: str, seconds: float
) -> Mapping[str, Mapping[str, str]]:
    """By topic, what was set on it under keys that begin so; topics without any are left out.

    Raises:
        Unavailable: no broker answered.
        Forbidden: settings may not be described to us.
    """
    resource: Any = _admin.ConfigResource  # type: ignore[attr-defined]  # public by its documents
    found: dict[str, dict[str, str]] = {}
    names = sorted(topics)
    for start in range(0, len(names), _AT_ONCE):
        wanted = [resource(resource.Type.TOPIC, name) for name in names[start : start + _AT_ONCE]]
        for asked, future in client.describe_configs(wanted, request_timeout=seconds).items():
            if own := _own(_described(asked.name, future, seconds), prefix):
                found[asked.name] = own
    return found


def _described(name: str, future: Any, seconds: float) -> Mapping[str, Any]:
    """A topic's settings as they were answered; none of one that has just gone."""
    try:
        entries: Mapping[str, Any] = future.result(seconds + 1)
    except KafkaException as error:
        code, told = error.args[0].code(), f"settings of topic {name}: {error.args[0].str()}"
        if code in _GONE:
            return {}
        raise (Forbidden if code in _REFUSED else Unavailable)(told) from None
    except TimeoutError:
        raise Unavailable(f"settings of topic {name}: no answer in {seconds:.0f} s") from None
    return entries


def _own(entries: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {
        key: str(entry.value)
        for key, entry in entries.items()
        if key.startswith(prefix) and entry.value is not None and int(entry.source) == _SET_ON_THE_TOPIC
    }
