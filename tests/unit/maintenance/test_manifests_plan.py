"""How many manifests lie over each other, and what is told when that cannot be known."""

import pytest

from maintenance.manifests.plan import Nothing, depth, overlap, plan
from maintenance.policies import MANIFESTS, effective
from table_format.manifest.entries import FieldSummary, ManifestContent, ManifestFile
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import field, struct


def metadata(*transforms):
    fields = [
        {"source-id": 1, "field-id": 1000 + n, "name": f"p{n}", "transform": transform}
        for n, transform in enumerate(transforms)
    ]
    return TableMetadata(
        {
            "format-version": 2,
            "location": "memory://w/t",
            "current-schema-id": 0,
            "schemas": [{**struct(field(1, "id", "int")), "schema-id": 0}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": fields}],
        }
    )


def number(value):
    return None if value is None else value.to_bytes(4, "little", signed=True)


def manifest(*ranges, nulls=False, length=10, **more):
    summaries = [
        FieldSummary(contains_null=nulls, lower_bound=number(low), upper_bound=number(high))
        for low, high in ranges
    ]
    return ManifestFile(path=f"memory://w/{ranges}", length=length, spec_id=0, partitions=summaries, **more)


@pytest.mark.parametrize(
    ("ranges", "answer"),
    [
        ([], 1),
        ([(1, 1)] * 5, 1),
        ([(1, 2), (2, 3), (3, 3), (3, 9)], 1),
        ([(1, 5), (2, 3)], 2),
        ([(1, 5), (3, 3)], 2),
        ([(1, 5), (5, 5), (1, 1)], 1),
        ([(1, 9)] * 4, 4),
        ([(1, 4), (3, 6), (5, 8)], 2),
    ],
)
def test_ranges_that_only_touch_do_not_overlap(ranges, answer):
    assert depth(ranges) == answer


def test_the_first_field_in_which_they_differ_decides():
    table = metadata("identity", "identity")
    same_first = [manifest((7, 7), (1, 9)), manifest((7, 7), (2, 5))]
    assert overlap(same_first, table) == 2
    assert overlap([manifest((1, 3), (1, 9)), manifest((3, 5), (1, 9))], table) == 1


@pytest.mark.parametrize(
    ("transforms", "manifests"),
    [
        (("identity",), [manifest(), manifest()]),
        (("identity",), [manifest((1, None)), manifest((1, 9))]),
        (("identity",), [manifest((None, None)), manifest((1, 9))]),
        (("unheard-of",), [manifest((1, 9)), manifest((1, 9))]),
        ((), [manifest(), manifest()]),
    ],
)
def test_without_bounds_that_can_be_understood_nothing_overlaps(transforms, manifests):
    assert overlap(manifests, metadata(*transforms)) == 1


def test_nulls_lie_before_every_value():
    table = metadata("identity")
    assert overlap([manifest((1, 2), nulls=True), manifest((None, None), nulls=True)], table) == 1
    assert overlap([manifest((3, 4), nulls=True), manifest((1, 2))], table) == 2
    assert overlap([], table) == 0


def test_a_spec_that_can_not_be_written_is_left_alone():
    table = metadata("unheard-of")
    policy = effective(MANIFESTS, [{"status": "enabled", "settings": {"minManifests": 2}}], {})
    found = plan([manifest((1, 2)), manifest((1, 3))], table, policy, limit_bytes=1000)
    assert found == Nothing(
        reason="no manifest can be rewritten",
        manifests=2,
        left_alone={"of a spec that cannot be written here": 2},
    )


def test_manifests_without_a_live_file_do_not_count():
    table = metadata("identity")
    policy = effective(MANIFESTS, [{"status": "enabled", "settings": {"minManifests": 2}}], {})
    dead = {"added_files_count": 0, "existing_files_count": 0, "deleted_files_count": 3}
    found = plan([manifest((1, 2)), manifest((1, 3), **dead)], table, policy, limit_bytes=1000)
    assert isinstance(found, Nothing)
    assert found.manifests == 1
    assert found.reason.startswith("data of spec 0: of 1 manifests 1 are smaller")
    deletes = manifest((1, 2), content=ManifestContent.DELETES)
    assert "deletes of spec 0" in plan([deletes], table, policy, limit_bytes=1000).reason
