"""Alembic's entry: runs the migrations on the connection that the program gives, in its transaction."""

from alembic import context

from catalog_server.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
