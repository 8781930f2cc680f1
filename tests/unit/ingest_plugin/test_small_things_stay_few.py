"""A stream of commits leaves neither ever more manifests nor ever more metadata files."""

from table_format.commit.append import MERGE_FROM_MANIFESTS
from table_format.manifest.lists import read_manifest_list
from tests.factories.ingest_lab import Lab


def test_manifests_are_merged_before_they_are_too_many() -> None:
    lab = Lab()
    commits = MERGE_FROM_MANIFESTS + 20
    for number in range(commits):
        lab.json({"id": number})
        lab.run()

    head = lab.table().metadata.current_snapshot
    assert head is not None
    assert len(lab.table().metadata.snapshots) == commits
    assert len(read_manifest_list(lab.store, head["manifest-list"])) <= MERGE_FROM_MANIFESTS + 1
    assert lab.values("id") == list(range(commits))


def test_new_tables_ask_the_catalog_to_delete_old_metadata_files() -> None:
    lab = Lab()
    lab.json({"id": 1})
    lab.run()
    assert lab.table().metadata.properties["write.metadata.delete-after-commit.enabled"] == "true"
