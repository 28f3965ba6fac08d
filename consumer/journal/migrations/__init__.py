"""Alembic's migrations of the journal; `consumer.journal.schema.migrate` runs them.

They are part of the package, so an installed wheel can run them. A migration that was released is
never changed; the next one is `versions/vNNNN_<what>.py`, and `tables.SCHEMA_VERSION` grows.
Alembic runs `env` for each.
"""
