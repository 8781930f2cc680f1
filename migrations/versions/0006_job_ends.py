"""Jobs can be cancelled, remember the failures of their attempts, and are listed by indexes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006_job_ends"
down_revision = "0005_bucket_storage"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_LISTING = [
    "id",
    "bucket_id",
    "namespace_key",
    "table_name",
    "kind",
    "state",
    "origin",
    "created_at_ms",
    "dry_run",
]
_ENDS = ["table_uuid", "kind", "dry_run", "state", "finished_at_ms"]


def upgrade() -> None:
    op.add_column("jobs", sa.Column("failures", _TEXT, nullable=True))
    op.add_column("jobs", sa.Column("cancel_requested_at_ms", sa.BigInteger(), nullable=True))
    op.drop_index("ix_jobs_table_uuid", "jobs")
    op.create_index("ix_jobs_table_uuid", "jobs", _ENDS, unique=False)
    op.create_index("ix_jobs_name", "jobs", ["bucket_id", "namespace_key", "table_name", "id"], unique=False)
    op.create_index("ix_jobs_listing", "jobs", _LISTING, unique=False)
    op.create_index("ix_jobs_bucket_id_started_at_ms", "jobs", ["bucket_id", "started_at_ms"], unique=False)
    op.create_index("ix_jobs_finished_at_ms", "jobs", ["finished_at_ms"], unique=False)
    op.create_index(
        "ix_jobs_not_done",
        "jobs",
        ["kind"],
        unique=False,
        sqlite_where=sa.text("state != 'done'"),
        postgresql_where=sa.text("state != 'done'"),
    )


def downgrade() -> None:
    # An older program knows no cancelled jobs, and would list plans that were made for one answer.
    op.execute("DELETE FROM jobs WHERE origin = 'plan'")
    op.execute("UPDATE jobs SET state = 'failed', error = 'cancelled' WHERE state = 'cancelled'")
    op.drop_index("ix_jobs_not_done", "jobs")
    op.drop_index("ix_jobs_finished_at_ms", "jobs")
    op.drop_index("ix_jobs_bucket_id_started_at_ms", "jobs")
    op.drop_index("ix_jobs_listing", "jobs")
    op.drop_index("ix_jobs_name", "jobs")
    op.drop_index("ix_jobs_table_uuid", "jobs")
    op.create_index("ix_jobs_table_uuid", "jobs", ["table_uuid", "kind"], unique=False)
    op.drop_column("jobs", "cancel_requested_at_ms")
    op.drop_column("jobs", "failures")
