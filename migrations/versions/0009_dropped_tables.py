"""Tables that were dropped and can still be had back, and those whose purge has not ended."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009_dropped_tables"
down_revision = "0008_resources"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "dropped_tables",
        sa.Column("table_id", _ID, autoincrement=False, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("namespace_key", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("resource_id", _TEXT, nullable=False),
        sa.Column("location", _TEXT, nullable=False),
        sa.Column("metadata_location", _TEXT, nullable=False),
        sa.Column("previous_metadata_location", _TEXT, nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by", _TEXT, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("purge_job_id", sa.BigInteger(), nullable=True),
        sa.Column("purge_begun", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bucket_id"], ["buckets.id"], name=op.f("fk_dropped_tables_bucket_id_buckets")
        ),
        sa.PrimaryKeyConstraint("table_id", name=op.f("pk_dropped_tables")),
    )
    op.create_index(
        "ix_dropped_tables_newest",
        "dropped_tables",
        ["bucket_id", "dropped_at_ms", "table_id"],
        unique=False,
    )
    op.create_index("uq_dropped_tables_resource_id", "dropped_tables", ["resource_id"], unique=True)
    op.create_index(op.f("ix_dropped_tables_table_uuid"), "dropped_tables", ["table_uuid"], unique=False)
    op.create_index(
        op.f("ix_dropped_tables_expires_at_ms"), "dropped_tables", ["expires_at_ms"], unique=False
    )
    op.create_index(op.f("ix_dropped_tables_purge_job_id"), "dropped_tables", ["purge_job_id"], unique=False)
    op.create_table(
        "dropped_places",
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("place", _TEXT, nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["table_id"],
            ["dropped_tables.table_id"],
            name=op.f("fk_dropped_places_table_id_dropped_tables"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("table_id", "place", name=op.f("pk_dropped_places")),
    )
    op.create_index(op.f("ix_dropped_places_place"), "dropped_places", ["place"], unique=False)
    # In place, never by making the table anew: on SQLite rows that go with its rows would go.
    op.add_column(
        "table_places", sa.Column("shared", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    op.execute(
        "DELETE FROM policies WHERE scope = 'table' AND scope_id IN (SELECT table_id FROM dropped_tables)"
    )
    for table in ("tags", "resource_settings"):
        op.execute(f"DELETE FROM {table} WHERE resource_id IN (SELECT resource_id FROM dropped_tables)")  # noqa: S608
    op.drop_column("table_places", "shared")
    op.drop_index(op.f("ix_dropped_places_place"), "dropped_places")
    op.drop_table("dropped_places")
    for index in (
        "ix_dropped_tables_purge_job_id",
        "ix_dropped_tables_expires_at_ms",
        "ix_dropped_tables_table_uuid",
        "uq_dropped_tables_resource_id",
        "ix_dropped_tables_newest",
    ):
        op.drop_index(index, "dropped_tables")
    op.drop_table("dropped_tables")
