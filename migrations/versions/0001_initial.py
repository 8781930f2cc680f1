"""All tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    _buckets_and_namespaces()
    _tables()
    _policies()
    _jobs()
    _keys_and_unreferenced()


def _buckets_and_namespaces() -> None:
    op.create_table(
        "buckets",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("location", _TEXT, nullable=False),
        sa.Column("properties", _TEXT, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_buckets")),
        sa.UniqueConstraint("name", name=op.f("uq_buckets_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "namespaces",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("parent_id", _ID, nullable=True),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("parent_key", _TEXT, nullable=False),
        sa.Column("properties", _TEXT, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bucket_id"], ["buckets.id"], name=op.f("fk_namespaces_bucket_id_buckets")),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["namespaces.id"], name=op.f("fk_namespaces_parent_id_namespaces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_namespaces")),
        sa.UniqueConstraint("bucket_id", "key", name=op.f("uq_namespaces_bucket_id_key")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_namespaces_children", "namespaces", ["bucket_id", "parent_key", "key"], unique=False)
    op.create_index("ix_namespaces_parent_id", "namespaces", ["parent_id"], unique=False)


def _tables() -> None:
    op.create_table(
        "tables",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("namespace_id", _ID, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("location", _TEXT, nullable=False),
        sa.Column("metadata_location", _TEXT, nullable=False),
        sa.Column("previous_metadata_location", _TEXT, nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bucket_id"], ["buckets.id"], name=op.f("fk_tables_bucket_id_buckets")),
        sa.ForeignKeyConstraint(
            ["namespace_id"], ["namespaces.id"], name=op.f("fk_tables_namespace_id_namespaces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tables")),
        sa.UniqueConstraint("namespace_id", "name", name=op.f("uq_tables_namespace_id_name")),
        sa.UniqueConstraint("table_uuid", name=op.f("uq_tables_table_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tables_bucket_id", "tables", ["bucket_id"], unique=False)
    op.create_table(
        "table_places",
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("place", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["table_id"], ["tables.id"], name=op.f("fk_table_places_table_id_tables"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("table_id", "place", name=op.f("pk_table_places")),
    )
    op.create_index("ix_table_places_place", "table_places", ["place"], unique=False)


def _policies() -> None:
    op.create_table(
        "policies",
        sa.Column("scope", _TEXT, nullable=False),
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("policy_type", _TEXT, nullable=False),
        sa.Column("document", _TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "scope_id", "policy_type", name=op.f("pk_policies")),
    )
    op.create_table(
        "policy_changes",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("scope", _TEXT, nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("policy_type", _TEXT, nullable=False),
        sa.Column("before", _TEXT, nullable=True),
        sa.Column("after", _TEXT, nullable=True),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policy_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_policy_changes_scope_scope_id", "policy_changes", ["scope", "scope_id"], unique=False)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("origin", _TEXT, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("namespace_key", _TEXT, nullable=True),
        sa.Column("table_name", _TEXT, nullable=True),
        sa.Column("table_id", sa.BigInteger(), nullable=True),
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("payload", _TEXT, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("run_after_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", _TEXT, nullable=True),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("plan", _TEXT, nullable=True),
        sa.Column("report", _TEXT, nullable=True),
        sa.Column("error", _TEXT, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bucket_id"], ["buckets.id"], name=op.f("fk_jobs_bucket_id_buckets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_state_run_after_ms", "jobs", ["state", "run_after_ms"], unique=False)
    op.create_index("ix_jobs_table_uuid", "jobs", ["table_uuid", "kind"], unique=False)
    op.create_index(
        "uq_jobs_queued",
        "jobs",
        ["table_uuid", "kind", "dry_run"],
        unique=True,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "uq_jobs_running",
        "jobs",
        ["table_uuid"],
        unique=True,
        sqlite_where=sa.text("state = 'running' AND NOT dry_run"),
        postgresql_where=sa.text("state = 'running' AND NOT dry_run"),
    )


def _keys_and_unreferenced() -> None:
    op.create_table(
        "idempotency",
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("fingerprint", _TEXT, nullable=False),
        sa.Column("outcome", _TEXT, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bucket_id"], ["buckets.id"], name=op.f("fk_idempotency_bucket_id_buckets")),
        sa.PrimaryKeyConstraint("bucket_id", "principal", "key", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created_at_ms", "idempotency", ["created_at_ms"], unique=False)
    op.create_table(
        "unreferenced_objects",
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("path", _TEXT, nullable=False),
        sa.Column("first_seen_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_uuid", "path", name=op.f("pk_unreferenced_objects")),
    )


def downgrade() -> None:
    op.drop_index("ix_table_places_place", "table_places")

    op.drop_table("table_places")
    op.drop_index("ix_tables_bucket_id", "tables")

    op.drop_table("tables")
    op.drop_index("ix_namespaces_parent_id", "namespaces")
    op.drop_index("ix_namespaces_children", "namespaces")

    op.drop_table("namespaces")
    op.drop_index("uq_jobs_running", "jobs")
    op.drop_index("uq_jobs_queued", "jobs")
    op.drop_index("ix_jobs_table_uuid", "jobs")
    op.drop_index("ix_jobs_state_run_after_ms", "jobs")

    op.drop_table("jobs")
    op.drop_index("ix_idempotency_created_at_ms", "idempotency")

    op.drop_table("idempotency")
    op.drop_table("unreferenced_objects")
    op.drop_index("ix_policy_changes_scope_scope_id", "policy_changes")

    op.drop_table("policy_changes")
    op.drop_table("policies")
    op.drop_table("buckets")
