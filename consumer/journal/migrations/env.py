"""Alembic runs this: it upgrades within the transaction that the caller has begun."""

from __future__ import annotations

from alembic import context

# A user's own tables may be in the same database, with a version table of Alembic's usual name.
context.configure(
    connection=context.config.attributes["connection"], version_table="onceward_alembic_version"
)
context.run_migrations()
