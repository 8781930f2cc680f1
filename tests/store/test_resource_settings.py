"""Rows of settings of resources: set, changed, taken away, and gone with the resource."""

from typing import Any

from catalog_server.store import resource_settings


def test_a_setting_is_read_as_it_was_set_and_counts_its_changes(connection: Any) -> None:
    assert resource_settings.find(connection, "one", "policy") is None
    first = resource_settings.put(connection, "one", "policy", {"a": [1, "\u00fc"]}, 5)
    assert (first.version, first.updated_at_ms) == (1, 5)
    assert resource_settings.put(connection, "one", "policy", {"a": [1, "\u00fc"]}, 6) == first
    second = resource_settings.put(connection, "one", "policy", {}, 7)
    assert (second.version, second.updated_at_ms, second.document) == (2, 7, {})
    assert resource_settings.find(connection, "one", "policy") == second


def test_settings_of_other_names_and_resources_stay(connection: Any) -> None:
    for resource, name in (("one", "a"), ("one", "b"), ("two", "a")):
        resource_settings.put(connection, resource, name, {"of": resource + name}, 1)
    assert resource_settings.remove(connection, "one", "a")
    assert not resource_settings.remove(connection, "one", "a")
    assert resource_settings.find(connection, "one", "b") is not None
    resource_settings.forget(connection, "one")
    assert resource_settings.find(connection, "one", "b") is None
    assert resource_settings.find(connection, "two", "a") is not None
