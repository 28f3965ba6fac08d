"""The version of a database's tables, stored under a name; and one migration at a time."""

from __future__ import annotations

from sqlalchemy import Connection, Table, inspect, select, text

from feedback.sql.inserting import insert_into


def lock_migration(connection: Connection, key: int) -> None:
    """Wait until no other migration runs; SQLite has one writer anyway.

    Args:
        key: any number that nobody else locks.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def has_tables(connection: Connection, meta: Table) -> bool:
    """Whether the table of names and values is there.

    Asked for before it is read: on PostgreSQL a failed statement ends the transaction.
    """
    return inspect(connection).has_table(meta.name)


def read_value(connection: Connection, meta: Table, name: str) -> str | None:
    """Return a value; None where there is none."""
    value = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return None if value is None else str(value)


def write_value(
    connection: Connection, meta: Table, name: str, value: str, *, overwrite: bool = True
) -> None:
    """Write a value.

    Args:
        overwrite: whether a value that is there is replaced.
    """
    statement = insert_into(meta, connection.dialect.name).values(name=name, value=value)
    key = [meta.c.name]
    connection.execute(
        statement.on_conflict_do_update(index_elements=key, set_={"value": value})
        if overwrite
        else statement.on_conflict_do_nothing(index_elements=key)
    )
