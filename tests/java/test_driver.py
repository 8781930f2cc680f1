"""The driver itself: it answers, tells errors apart, keeps numbers, and goes on after an error."""

import pytest

from tests.factories.metadata_documents import LOCATION, table
from tests.java.driver import IcebergJava, JavaError

pytestmark = pytest.mark.java


def test_a_commit_is_applied(java: IcebergJava) -> None:
    base = table(version=2).document
    update = {"action": "set-properties", "updates": {"a": "ü"}}
    location = f"{LOCATION}/metadata/00000-a.metadata.json"
    new = java.ask("applyTable", base=base, location=location, updates=[update], requirements=[])
    assert new["properties"]["a"] == "ü"
    assert new["metadata-log"] == [{"metadata-file": location, "timestamp-ms": base["last-updated-ms"]}]


def test_a_commit_that_changes_nothing_is_null(java: IcebergJava) -> None:
    base = table(version=2).document
    assert java.ask("applyTable", base=base, location="file:///m.json", updates=[]) is None


def test_errors_have_their_class_and_the_process_goes_on(java: IcebergJava) -> None:
    with pytest.raises(JavaError) as refused:
        java.ask("applyTable", base=table(version=2).document, requirements=[{"type": "assert-create"}])
    assert refused.value.kind == "CommitFailedException"
    assert refused.value.message == "Requirement failed: table already exists"
    with pytest.raises(JavaError, match="no such command"):
        java.ask("nothing")
    assert java.ask("applyTable", base=table(version=2).document, location="file:///m.json") is None
