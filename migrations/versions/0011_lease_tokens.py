"""Each claim of a job has a token of its own: the worker's name may be that of two processes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011_lease_tokens"
down_revision = "0010_held_files"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    # What runs has no token, so nobody holds it: it is given back when its lease is over.
    op.add_column("jobs", sa.Column("lease_token", _TEXT, nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "lease_token")
