"""Storage settings of a bucket, and the name of its credentials."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005_bucket_storage"
down_revision = "0004_metrics_reports"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    # With a default, so that a server of the release before can go on making buckets beside this one.
    op.add_column("buckets", sa.Column("storage", _TEXT, nullable=False, server_default="{}"))
    op.add_column("buckets", sa.Column("credentials", _TEXT, nullable=True))
    op.create_index(op.f("ix_buckets_location"), "buckets", ["location"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_buckets_location"), "buckets")
    op.drop_column("buckets", "credentials")
    op.drop_column("buckets", "storage")
