"""alembic's entry: runs the migrations in the transaction that `db.migrate` opened."""

from alembic import context

from graftwork.db.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
