"""Tokens that somebody made by hand."""

import base64
import json

import pytest

from catalog_server.services.paging import PageRequest, keyset
from table_format.errors import Invalid


def token(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def test_a_key_made_by_hand_is_a_key() -> None:
    assert keyset(PageRequest(token=token("tables", "a")), "tables").after == ("a",)


@pytest.mark.parametrize(
    "parts",
    [("tables",), ("views", "a"), ("tables", 5), ("tables", None), ("tables", "a\0b"), ("tables", "\ud800")],
)
def test_S19_what_no_row_can_have_is_refused(parts: tuple[object, ...]) -> None:
    with pytest.raises(Invalid, match="pageToken"):
        keyset(PageRequest(token=token(*parts)), "tables")
