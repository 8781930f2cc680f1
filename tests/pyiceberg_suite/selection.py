"""Which of PyIceberg's integration tests are run: those of a REST catalog that need no Spark; the rest with reasons."""

# Every test of these files is run, apart from the parameters and tests named below.
FILES = (
    "test_catalog.py",
    "test_rest_catalog.py",
    "test_rest_schema.py",
    "test_partition_evolution.py",
    "test_snapshot_operations.py",
    "test_sort_order_update.py",
)

# Parameters and names of tests about catalogs that are not ours.
OTHER_CATALOGS = ("hive", "memory_catalog", "sqlite_catalog")

NOT_RUN: dict[str, str] = {
    "test_rest_manifest.py": "writes an Avro file beside the catalog; nothing of a catalog is tested",
    "test_statistics_operations.py": "names statistics in s3://bucket, outside the table bucket: refused",
    "test_add_files.py": "needs Spark",
    "test_delete_count.py": "needs Spark",
    "test_deletes.py": "needs Spark",
    "test_hive_migration.py": "needs Hive",
    "test_inspect_table.py": "needs Spark",
    "test_partitioning_key.py": "needs Spark",
    "test_reads.py": "needs Spark",
    "test_rest_scan_planning_integration.py": "needs Spark",
    "test_writes": "needs Spark",
}
"""Files and folders of their integration tests that are left out, and why."""

SEPARATOR_TEST = "test_catalog.py::test_rest_custom_namespace_separator"
"""The one test that wants a server whose namespaces are separated by dots; it gets one."""
