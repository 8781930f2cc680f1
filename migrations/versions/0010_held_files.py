"""Unreferenced files that are held back from deletion; their size, and which are being deleted."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010_held_files"
down_revision = "0009_dropped_tables"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("unreferenced_objects", sa.Column("size", sa.BigInteger(), nullable=True))
    op.add_column(
        "unreferenced_objects",
        sa.Column("deleting", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "held_files",
        sa.Column("table_uuid", _TEXT, nullable=False),
        sa.Column("path", _TEXT, nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=True),
        sa.Column("held_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("held_by", _TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_uuid", "path", name=op.f("pk_held_files")),
    )


def downgrade() -> None:
    # What was held would be deleted: it has to be found unreferenced anew before it may go.
    op.execute(
        "DELETE FROM unreferenced_objects WHERE EXISTS (SELECT 1 FROM held_files WHERE "
        "held_files.table_uuid = unreferenced_objects.table_uuid AND held_files.path = unreferenced_objects.path)"
    )
    op.drop_table("held_files")
    op.drop_column("unreferenced_objects", "deleting")
    op.drop_column("unreferenced_objects", "size")
