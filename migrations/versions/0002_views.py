"""Views and the places they put files into."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002_views"
down_revision = "0001_initial"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "views",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("bucket_id", _ID, nullable=False),
        sa.Column("namespace_id", _ID, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("view_uuid", _TEXT, nullable=False),
        sa.Column("location", _TEXT, nullable=False),
        sa.Column("metadata_location", _TEXT, nullable=False),
        sa.Column("previous_metadata_location", _TEXT, nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bucket_id"], ["buckets.id"], name=op.f("fk_views_bucket_id_buckets")),
        sa.ForeignKeyConstraint(
            ["namespace_id"], ["namespaces.id"], name=op.f("fk_views_namespace_id_namespaces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_views")),
        sa.UniqueConstraint("namespace_id", "name", name=op.f("uq_views_namespace_id_name")),
        sa.UniqueConstraint("view_uuid", name=op.f("uq_views_view_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "view_places",
        sa.Column("view_id", _ID, nullable=False),
        sa.Column("place", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["view_id"], ["views.id"], name=op.f("fk_view_places_view_id_views"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("view_id", "place", name=op.f("pk_view_places")),
    )
    op.create_index("ix_view_places_place", "view_places", ["place"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_view_places_place", "view_places")
    op.drop_table("view_places")
    op.drop_table("views")
