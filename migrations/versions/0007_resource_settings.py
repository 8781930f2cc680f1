"""Settings that hang on a bucket or table by its resource id."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007_resource_settings"
down_revision = "0006_job_ends"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "resource_settings",
        sa.Column("resource_id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("document", _TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "name", name=op.f("pk_resource_settings")),
    )


def downgrade() -> None:
    op.drop_table("resource_settings")
