"""A pytest plugin of the suite's process: its catalogs at the usual address are those of our server.

Loaded by name inside PyIceberg's test run, where this project's packages are not on the path.
"""

import os
from collections.abc import Callable

import pytest
from pyiceberg.catalog.rest import RestCatalog

# Their fixtures have this address written into them, without a path; ours is on a free port.
USUAL = "http://localhost:8181"


def pytest_configure(config: pytest.Config) -> None:
    """Send their catalogs to the server, and switch on what it can do."""
    RestCatalog.__init__ = _to_server(RestCatalog.__init__)  # type: ignore[method-assign]


def _to_server(own: Callable[..., None]) -> Callable[..., None]:
    def init(catalog: RestCatalog, name: str, **properties: str) -> None:
        if properties.get("uri") == USUAL:
            properties["uri"] = os.environ["PYICEBERG_SUITE_URI"]
        own(catalog, name, **properties, supports_slash_in_identifier="true")

    return init
