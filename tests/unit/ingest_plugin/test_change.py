"""What a change says, and how positions in a source's log compare."""

import pytest

from ingest_plugin.bind.topic import TopicBinder
from ingest_plugin.change import APPEND, DELETE, UPSERT, Op, SourcePosition, op_of
from ingest_plugin.decode.values import Group
from tests.factories.ingest_lab import Lab, settings_of


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("c", Op.UPSERT),
        ("r", Op.UPSERT),
        ("I", Op.UPSERT),
        ("Update", Op.UPSERT),
        ("DELETE", Op.DELETE),
        ("t", None),
        ("", None),
        (None, None),
        (1, None),
    ],
)
def test_operations_by_their_first_letter(text: object, op: Op | None) -> None:
    assert op_of(text) is op


def test_positions_compare_within_one_source_only() -> None:
    def at(*numbers: int, source: str = "pg/app") -> SourcePosition:
        return SourcePosition(source=source, at=numbers)

    assert at(1, 5).is_before(at(2, 0))
    assert not at(2, 0).is_before(at(1, 5))
    assert not at(1).is_before(at(1))
    assert not at(1).is_before(at(2, 0))
    assert not at(1).is_before(at(2, source="pg/other"))
    assert str(at(3, 4)) == "pg/app@3.4"


def test_changes_stay_beside_the_rows_that_fit() -> None:
    lab = Lab()
    lab.json({}, {}, {}, {})
    (topic,) = settings_of(lab.document).topics
    binder = TopicBinder(settings=topic, catalog=lab.catalog, clock=lab.clock, ids=lab.ids)
    messages = [message for message in lab.cluster.topics[lab.topic].logs[0] if message is not None]
    rows = [{"a": 1}, {"a": "x"}, {"a": 2}, {"a": 3}]
    group = Group(rows=rows, positions=[0, 1, 2, 3], changes=[UPSERT, UPSERT, DELETE, APPEND])
    bound = binder.bind(group, messages)
    assert bound.batch is not None
    assert bound.batch.column("a").to_pylist() == [1, 2, 3]
    assert bound.changes == [UPSERT, DELETE, APPEND]
    assert list(bound.places) == [0, 2, 3]
    plain = binder.bind(Group(rows=rows[:1], positions=[0]), messages)
    assert plain.changes is None
