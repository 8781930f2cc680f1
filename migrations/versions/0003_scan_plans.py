"""Scan plans that clients asked the server for."""

import sqlalchemy as sa
from alembic import op

revision = "0003_scan_plans"
down_revision = "0002_views"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "scan_plans",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("table_uuid", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("scan", sa.LargeBinary(), nullable=False),
        sa.Column("pages", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scan_plans")),
    )
    op.create_index("ix_scan_plans_expires_at_ms", "scan_plans", ["expires_at_ms"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_scan_plans_expires_at_ms", "scan_plans")
    op.drop_table("scan_plans")
