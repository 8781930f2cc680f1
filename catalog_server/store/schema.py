"""All database tables. Times are integer milliseconds; texts compare byte by byte, on either kind of database.

`REVISION` is the Alembic revision this file describes; a test holds both together.
"""

from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect

REVISION = "0012_ingest_topics"

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


# PostgreSQL's default collation is that of some language: pages would come in its order, and the ranges by which
# overlapping places are found would miss some.
TEXT = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


class JsonText(TypeDecorator[Any]):
    """A JSON value in a text column (the dialects' own JSON types differ in what they change)."""

    impl = TEXT
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Value to text."""
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Text to value."""
        return None if value is None else orjson.loads(value)


def _id() -> Column[int]:
    # With sqlite_autoincrement ids are never given out twice, so a row that is left behind can not attach
    # itself to a newer thing.
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


# Later columns of older tables have defaults or may be null: a server of the release before may write rows, too. A
# resource id that is null is what `resources` makes of the row.
buckets = Table(
    "buckets",
    METADATA,
    _id(),
    Column("name", TEXT, nullable=False, unique=True),
    Column("location", TEXT, nullable=False, index=True),
    Column("properties", JsonText, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("storage", JsonText, nullable=False, server_default="{}"),  # nothing secret
    Column("credentials", TEXT, nullable=True),  # NAME of the setting storage.credentials.NAME
    Column("resource_id", TEXT, nullable=True),
    Column("protected", Boolean, nullable=False, server_default=false()),
    Column("version", BigInteger, nullable=False, server_default="1"),
    Column("updated_at_ms", BigInteger, nullable=False, server_default="0"),
    Index("uq_buckets_resource_id", "resource_id", unique=True),
    sqlite_autoincrement=True,
)

namespaces = Table(
    "namespaces",
    METADATA,
    _id(),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("parent_id", ForeignKey("namespaces.id"), nullable=True, index=True),
    # All levels joined by U+001F, which no level may hold.
    Column("key", TEXT, nullable=False),
    Column("parent_key", TEXT, nullable=False),
    Column("properties", JsonText, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="1"),
    Column("updated_at_ms", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("bucket_id", "key"),
    Index("ix_namespaces_children", "bucket_id", "parent_key", "key"),
    sqlite_autoincrement=True,
)

tables = Table(
    "tables",
    METADATA,
    _id(),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("namespace_id", ForeignKey("namespaces.id"), nullable=False),
    Column("name", TEXT, nullable=False),
    Column("table_uuid", TEXT, nullable=False, unique=True),
    Column("location", TEXT, nullable=False),
    Column("metadata_location", TEXT, nullable=False),
    Column("previous_metadata_location", TEXT, nullable=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    # Stays through renames, and when metadata of another uuid is registered over the table's.
    Column("resource_id", TEXT, nullable=True),
    Column("protected", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("namespace_id", "name"),
    Index("ix_tables_bucket_id", "bucket_id"),
    Index(
        "ix_tables_blank",
        "namespace_id",
        "name",
        sqlite_where=text("metadata_location = ''"),
        postgresql_where=text("metadata_location = ''"),
    ),
    Index("uq_tables_resource_id", "resource_id", unique=True),
    sqlite_autoincrement=True,
)

# Documents and tags of buckets and tables, by their resource ids; they go with the resource, in the same transaction.
resource_settings = Table(
    "resource_settings",
    METADATA,
    Column("resource_id", TEXT, primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("document", JsonText, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

tags = Table(
    "tags",
    METADATA,
    Column("resource_id", TEXT, primary_key=True),
    Column("key", TEXT, primary_key=True),
    Column("value", TEXT, nullable=False),
)

# Every place a table ever put files into while it existed; no two tables (or views) may have overlapping ones.
table_places = Table(
    "table_places",
    METADATA,
    Column("table_id", ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True),
    Column("place", TEXT, primary_key=True, index=True),  # canonical, without trailing slash
    # Files of a dropped table lie there too: what is found there is not all the table's own.
    Column("shared", Boolean, nullable=False, server_default=false()),
)

# A table that was dropped, under the row id that it had: policies on it and tags wait for it. With a purge job it
# stays until that job has ended; else until its time is over.
dropped_tables = Table(
    "dropped_tables",
    METADATA,
    Column("table_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("namespace_key", TEXT, nullable=False),  # the namespace itself may go
    Column("name", TEXT, nullable=False),
    Column("table_uuid", TEXT, nullable=False, index=True),
    Column("resource_id", TEXT, nullable=False),
    Column("location", TEXT, nullable=False),
    Column("metadata_location", TEXT, nullable=False),
    Column("previous_metadata_location", TEXT, nullable=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("dropped_at_ms", BigInteger, nullable=False),
    Column("dropped_by", TEXT, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=True, index=True),
    Column("purge_job_id", BigInteger, nullable=True, index=True),
    Column("purge_begun", Boolean, nullable=False),  # files may be gone
    Index("ix_dropped_tables_newest", "bucket_id", "dropped_at_ms", "table_id"),
    Index("uq_dropped_tables_resource_id", "resource_id", unique=True),
)

# Where the files of dropped tables lie. Unlike places of tables these may overlap others.
dropped_places = Table(
    "dropped_places",
    METADATA,
    Column("table_id", ForeignKey("dropped_tables.table_id", ondelete="CASCADE"), primary_key=True),
    Column("place", TEXT, primary_key=True, index=True),  # canonical, without trailing slash
    Column("shared", Boolean, nullable=False),
)

# What a table's metadata at one location tells of its size; unknown numbers are null. May be behind the table.
table_figures = Table(
    "table_figures",
    METADATA,
    Column("table_id", ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True),
    Column("metadata_location", TEXT, nullable=False),
    Column("snapshots", BigInteger, nullable=True),
    Column("data_files", BigInteger, nullable=True),
    Column("delete_files", BigInteger, nullable=True),
    Column("records", BigInteger, nullable=True),
    Column("bytes", BigInteger, nullable=True),
    Column("measured_at_ms", BigInteger, nullable=False),
)

# A view and a table can not have the same name; `relations` sees to that.
views = Table(
    "views",
    METADATA,
    _id(),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("namespace_id", ForeignKey("namespaces.id"), nullable=False),
    Column("name", TEXT, nullable=False),
    Column("view_uuid", TEXT, nullable=False, unique=True),
    Column("location", TEXT, nullable=False),
    Column("metadata_location", TEXT, nullable=False),
    Column("previous_metadata_location", TEXT, nullable=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    UniqueConstraint("namespace_id", "name"),
    Index("ix_views_bucket_id", "bucket_id"),
    sqlite_autoincrement=True,
)

view_places = Table(
    "view_places",
    METADATA,
    Column("view_id", ForeignKey("views.id", ondelete="CASCADE"), primary_key=True),
    Column("place", TEXT, primary_key=True, index=True),  # canonical, without trailing slash
)

policies = Table(
    "policies",
    METADATA,
    Column("scope", TEXT, primary_key=True),  # bucket | namespace | table
    Column("scope_id", BigInteger, primary_key=True, autoincrement=False),
    Column("policy_type", TEXT, primary_key=True),
    Column("document", JsonText, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

policy_changes = Table(
    "policy_changes",
    METADATA,
    _id(),
    Column("scope", TEXT, nullable=False),
    Column("scope_id", BigInteger, nullable=False),
    Column("policy_type", TEXT, nullable=False),
    Column("before", JsonText, nullable=True),
    Column("after", JsonText, nullable=True),
    Column("principal", TEXT, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Index("ix_policy_changes_scope_scope_id", "scope", "scope_id"),
    sqlite_autoincrement=True,
)

ingest_topics = Table(
    "ingest_topics",
    METADATA,
    Column("bucket_id", ForeignKey("buckets.id"), primary_key=True),
    Column("topic", TEXT, primary_key=True),
    Column("document", JsonText, nullable=False),
    Column("home", TEXT, nullable=False, index=True),  # the tables it writes, to find others that do
    Column("letters", TEXT, nullable=True, index=True),
    Column("version", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

ingest_topic_changes = Table(
    "ingest_topic_changes",
    METADATA,
    _id(),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("topic", TEXT, nullable=False),
    Column("before", JsonText, nullable=True),
    Column("after", JsonText, nullable=True),
    Column("principal", TEXT, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Index("ix_ingest_topic_changes_bucket_id_topic", "bucket_id", "topic"),
    sqlite_autoincrement=True,
)

# A job keeps its own copy of the table's name and uuid: it outlives the table's row (a purge always does).
jobs = Table(
    "jobs",
    METADATA,
    _id(),
    Column("kind", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("origin", TEXT, nullable=False),
    Column("bucket_id", ForeignKey("buckets.id"), nullable=False),
    Column("namespace_key", TEXT, nullable=True),
    Column("table_name", TEXT, nullable=True),
    Column("table_id", BigInteger, nullable=True),
    Column("table_uuid", TEXT, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("payload", JsonText, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("run_after_ms", BigInteger, nullable=False),
    Column("lease_owner", TEXT, nullable=True),
    # Another at each claim: a name alone may be that of two processes, or of two claims of one.
    Column("lease_token", TEXT, nullable=True),
    Column("lease_until_ms", BigInteger, nullable=True),
    Column("plan", JsonText, nullable=True),
    Column("report", JsonText, nullable=True),
    Column("error", TEXT, nullable=True),
    # Of the attempts that failed, the newest last: [{"attempt", "atMs", "worker", "error"}].
    Column("failures", JsonText, nullable=True),
    Column("cancel_requested_at_ms", BigInteger, nullable=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger, nullable=True),
    Column("finished_at_ms", BigInteger, nullable=True),
    Index(
        "uq_jobs_queued",
        "table_uuid",
        "kind",
        "dry_run",
        unique=True,
        sqlite_where=text("state = 'queued'"),
        postgresql_where=text("state = 'queued'"),
    ),
    Index(
        "uq_jobs_running",
        "table_uuid",
        unique=True,
        sqlite_where=text("state = 'running' AND NOT dry_run"),
        postgresql_where=text("state = 'running' AND NOT dry_run"),
    ),
    Index("ix_jobs_state_run_after_ms", "state", "run_after_ms"),
    # When each kind last ran on each table, without a look at the rows, whose plans may be long.
    Index("ix_jobs_table_uuid", "table_uuid", "kind", "dry_run", "state", "finished_at_ms"),
    # Listings by name of a table, and by anything else: the newest first, again without a look at the rows.
    Index("ix_jobs_name", "bucket_id", "namespace_key", "table_name", "id"),
    Index(
        "ix_jobs_listing",
        "id",
        "bucket_id",
        "namespace_key",
        "table_name",
        "kind",
        "state",
        "origin",
        "created_at_ms",
        "dry_run",
    ),
    Index("ix_jobs_bucket_id_started_at_ms", "bucket_id", "started_at_ms"),
    Index("ix_jobs_finished_at_ms", "finished_at_ms"),
    # Every job that deletes files asks for the purges that are still to come, before each batch.
    Index(
        "ix_jobs_not_done",
        "kind",
        sqlite_where=text("state != 'done'"),
        postgresql_where=text("state != 'done'"),
    ),
    sqlite_autoincrement=True,
)

idempotency = Table(
    "idempotency",
    METADATA,
    Column("bucket_id", ForeignKey("buckets.id"), primary_key=True),
    Column("principal", TEXT, primary_key=True),
    Column("key", TEXT, primary_key=True),
    Column("fingerprint", TEXT, nullable=False),
    Column("outcome", JsonText, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False, index=True),
)

# What clients reported after scans and commits; observations that may be lost.
metrics_reports = Table(
    "metrics_reports",
    METADATA,
    _id(),
    Column("table_id", ForeignKey("tables.id", ondelete="CASCADE"), nullable=False),
    Column("type", TEXT, nullable=False),
    Column("snapshot_id", BigInteger, nullable=True),
    Column("report", TEXT, nullable=False),  # JSON as it came; numbers may exceed what JsonText can read
    Column("received_at_ms", BigInteger, nullable=False, index=True),
    Index("ix_metrics_reports_table_id_id", "table_id", "id"),
    sqlite_autoincrement=True,
)

unreferenced_objects = Table(
    "unreferenced_objects",
    METADATA,
    Column("table_uuid", TEXT, primary_key=True),
    Column("path", TEXT, primary_key=True),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=True),
    # Its deletion has begun, so that it can not be held any more.
    Column("deleting", Boolean, nullable=False, server_default=false()),
)

# Not tied to the rows above: a file that is noted anew is held all the same, also after a drop and restore.
held_files = Table(
    "held_files",
    METADATA,
    Column("table_uuid", TEXT, primary_key=True),
    Column("path", TEXT, primary_key=True),
    Column("until_ms", BigInteger, nullable=True),  # null: until it is released
    Column("held_at_ms", BigInteger, nullable=False),
    Column("held_by", TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
)

# Not tied to the table's row: the table may go, and its plans then answer that it is gone until they expire.
scan_plans = Table(
    "scan_plans",
    METADATA,
    Column("id", TEXT, primary_key=True),
    Column("table_uuid", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),  # submitted | completed | failed | cancelled
    Column("scan", LargeBinary, nullable=False),
    Column("pages", JsonText, nullable=False),
    Column("error", JsonText, nullable=True),
    Column("lease_until_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False, index=True),
)
