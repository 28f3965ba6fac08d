"""Every table of the journal and the outbox, from SQLAlchemy's metadata."""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, Table
from sqlalchemy.dialects import postgresql, sqlite

from consumer.journal import wait_tables
from docs.generators.markdown import anchor, code, slug, table
from docs.generators.meanings import meanings
from producer_client.outbox import tables as outbox

# Those of wait records are declared beside the journal's others, in one metadata.
DATABASES: dict[str, MetaData] = {
    "journal": wait_tables.wait.metadata,
    "outbox": outbox.metadata,
}


def markdown() -> str:
    """Return a heading, the columns and the indexes of each table."""
    return "\n\n".join(_table(one) for one in all_tables())


def all_tables() -> list[Table]:
    """Return the tables, those of the journal first, in the order of their declaration."""
    return [one for metadata in DATABASES.values() for one in metadata.tables.values()]


def _table(one: Table) -> str:
    meant = meanings("tables", one.name, ["about", *(column.name for column in one.columns)])
    rows = [_column(column, meant[column.name]) for column in one.columns]
    parts = [anchor(f"table-{slug(one.name)}"), f"## `{one.name}`", meant["about"]]
    parts.append(table(("column", "PostgreSQL", "SQLite", "meaning"), rows))
    if one.indexes:
        indexes = sorted(one.indexes, key=lambda index: str(index.name))
        parts.append("Indexes: " + "; ".join(map(_index, indexes)) + ".")
    return "\n\n".join(parts)


def _column(column: Column[object], meaning: str) -> list[str]:
    types = [
        column.type.compile(dialect=dialect()).partition(" COLLATE")[0].lower()
        for dialect in (postgresql.dialect, sqlite.dialect)
    ]
    name = code(column.name) + (" (key)" if column.primary_key else "")
    optional = "" if column.nullable else " not null"
    return [name, *(code(one) + optional for one in types), meaning]


def _index(index: Index) -> str:
    columns = ", ".join(code(column.name) for column in index.columns)
    options = index.dialect_options
    where = options["postgresql"]["where"]
    on_sqlite = options["sqlite"]["where"]
    only = "" if where is None else f" where {code(str(where))}"
    if on_sqlite is not None:
        only = f" where {code(str(on_sqlite))} (SQLite)"
    return f"{code(str(index.name))} on {columns}{only}"
