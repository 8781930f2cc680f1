"""Kafka topics that are registered at a bucket for ingest, and who changed them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012_ingest_topics"
down_revision = "0011_lease_tokens"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "ingest_topics",
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("topic", _TEXT, nullable=False),
        sa.Column("document", _TEXT, nullable=False),
        sa.Column("home", _TEXT, nullable=False),
        sa.Column("letters", _TEXT, nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bucket_id"], ["buckets.id"], name=op.f("fk_ingest_topics_bucket_id_buckets")
        ),
        sa.PrimaryKeyConstraint("bucket_id", "topic", name=op.f("pk_ingest_topics")),
    )
    op.create_index(op.f("ix_ingest_topics_home"), "ingest_topics", ["home"])
    op.create_index(op.f("ix_ingest_topics_letters"), "ingest_topics", ["letters"])
    op.create_table(
        "ingest_topic_changes",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("topic", _TEXT, nullable=False),
        sa.Column("before", _TEXT, nullable=True),
        sa.Column("after", _TEXT, nullable=True),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bucket_id"], ["buckets.id"], name=op.f("fk_ingest_topic_changes_bucket_id_buckets")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingest_topic_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ingest_topic_changes_bucket_id_topic", "ingest_topic_changes", ["bucket_id", "topic"])


def downgrade() -> None:
    op.drop_table("ingest_topic_changes")
    op.drop_table("ingest_topics")
