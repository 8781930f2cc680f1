"""Buckets, namespaces and tables as resources: ids that last, versions, protection, tags, figures."""

import uuid

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008_resources"
down_revision = "0007_resource_settings"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_SPACE = uuid.UUID("6f1c2b8e-4a54-5d0e-9c39-0a6f27b1d0c5")

# Columns are added to the tables as they are: SQLite would make a changed table anew and, dropping the old one, take
# along all rows that go with its rows. They have defaults, or may be null, so that a server of the release before can
# go on beside this one.
_ADDED = {
    "buckets": ("resource_id", "protected", "version", "updated_at_ms"),
    "namespaces": ("version", "updated_at_ms"),
    "tables": ("resource_id", "protected"),
}
_FIGURES = ("snapshots", "data_files", "delete_files", "records", "bytes")
_IDENTIFIED = ("buckets", "tables")


def upgrade() -> None:
    for table, columns in _ADDED.items():
        for column in columns:
            op.add_column(table, _column(column))
    op.execute("UPDATE buckets SET updated_at_ms = created_at_ms")
    op.execute("UPDATE namespaces SET updated_at_ms = created_at_ms")
    op.execute("UPDATE tables SET resource_id = table_uuid")
    connection = op.get_bind()
    for bucket in connection.execute(
        sa.text("SELECT id, name, created_at_ms FROM buckets ORDER BY id")
    ).all():
        made = uuid.uuid5(_SPACE, f"bucket {bucket.id} {bucket.name} {bucket.created_at_ms}")
        connection.execute(
            sa.text("UPDATE buckets SET resource_id = :made WHERE id = :id"),
            {"made": str(made), "id": bucket.id},
        )
    for table in _IDENTIFIED:
        op.create_index(f"uq_{table}_resource_id", table, ["resource_id"], unique=True)
    op.create_table(
        "tags",
        sa.Column("resource_id", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("value", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "key", name=op.f("pk_tags")),
    )
    op.create_table(
        "table_figures",
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("metadata_location", _TEXT, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in _FIGURES),
        sa.Column("measured_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["table_id"], ["tables.id"], name=op.f("fk_table_figures_table_id_tables"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("table_id", name=op.f("pk_table_figures")),
    )
    op.create_index(
        "ix_tables_blank",
        "tables",
        ["namespace_id", "name"],
        sqlite_where=sa.text("metadata_location = ''"),
        postgresql_where=sa.text("metadata_location = ''"),
    )
    op.create_index("ix_views_bucket_id", "views", ["bucket_id"], unique=False)


def downgrade() -> None:
    # Blank tables, which have no metadata yet: a program of before would take them for tables.
    op.execute(
        "DELETE FROM policies WHERE scope = 'table' "
        "AND scope_id IN (SELECT id FROM tables WHERE metadata_location = '')"
    )
    op.execute(
        "DELETE FROM table_places WHERE table_id IN (SELECT id FROM tables WHERE metadata_location = '')"
    )
    op.execute("DELETE FROM tables WHERE metadata_location = ''")
    op.drop_index("ix_tables_blank", "tables")
    op.drop_index("ix_views_bucket_id", "views")
    op.drop_table("table_figures")
    op.drop_table("tags")
    for table in _IDENTIFIED:
        op.drop_index(f"uq_{table}_resource_id", table)
    for table, columns in _ADDED.items():
        for column in reversed(columns):
            op.drop_column(table, column)


def _column(name: str) -> sa.Column[object]:
    if name == "resource_id":
        return sa.Column(name, _TEXT, nullable=True)
    if name == "protected":
        return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default={"version": "1"}.get(name, "0"))
