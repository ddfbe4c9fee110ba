"""Run by alembic: applies the steps on the connection that `dptext.ledger.database` hands over, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
# The transaction is the caller's, so that a step that fails or is killed leaves the old schema whole.
context.run_migrations()
