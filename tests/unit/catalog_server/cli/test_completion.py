"""Completion asks a server, and stays silent when there is none or half a name is typed."""

import pytest

from catalog_server.cli import completion
from tests.postgres import free_port


@pytest.mark.parametrize("complete", [completion.buckets, completion.namespaces, completion.tables])
@pytest.mark.parametrize("typed", ["", "a", "a.b", 'a."', '"a.b".', "."])
def test_without_a_server_nothing_is_completed_or_said(
    complete: object, typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(complete)
    assert complete({"url": f"http://127.0.0.1:{free_port()}"}, typed) == []
    assert complete({"url": "no address at all"}, typed) == []
    assert capsys.readouterr() == ("", "")
