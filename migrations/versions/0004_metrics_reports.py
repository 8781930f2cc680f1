"""Reports that clients send after scans and commits."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004_metrics_reports"
down_revision = "0003_scan_plans"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "metrics_reports",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("type", _TEXT, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("report", _TEXT, nullable=False),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["table_id"], ["tables.id"], name=op.f("fk_metrics_reports_table_id_tables"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metrics_reports")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_metrics_reports_table_id_id", "metrics_reports", ["table_id", "id"], unique=False)
    op.create_index(
        op.f("ix_metrics_reports_received_at_ms"), "metrics_reports", ["received_at_ms"], unique=False
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_metrics_reports_received_at_ms"), "metrics_reports")
    op.drop_index("ix_metrics_reports_table_id_id", "metrics_reports")
    op.drop_table("metrics_reports")
