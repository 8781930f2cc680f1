"""Scan plans that clients asked the server for."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003_scan_plans"
down_revision = "0002_views"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "scan_plans",
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("scan", sa.LargeBinary(), nullable=False),
        sa.Column("pages", _TEXT, nullable=False),
        sa.Column("error", _TEXT, nullable=True),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scan_plans")),
    )
    op.create_index("ix_scan_plans_expires_at_ms", "scan_plans", ["expires_at_ms"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_scan_plans_expires_at_ms", "scan_plans")
    op.drop_table("scan_plans")
