"""The outbox's schema as texts of SQL, for a framework that brings its own connection."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import create_mock_engine, make_url, select
from sqlalchemy.engine import Dialect

from feedback.sql.rights import HOLDING
from producer_client.outbox.tables import VERSION, meta, metadata

# By the names that Django gives databases of a kind.
_URLS = {"postgresql": "postgresql+psycopg://", "sqlite": "sqlite://"}


def is_known(kind: str) -> bool:
    """Whether an outbox can lie in a database of this kind."""
    return kind in _URLS


@cache
def dialect_of(kind: str) -> Dialect:
    """Return the dialect of "postgresql" (psycopg) or "sqlite"."""
    made: Dialect = make_url(_URLS[kind]).get_dialect()()
    return made


def statements_of_schema(kind: str) -> list[str]:
    """Return the statements that make the tables of an empty database and write their version."""
    texts: list[str] = []

    def note(statement: Any, *_: object, **__: object) -> None:
        texts.append(_text(statement, kind))

    metadata.create_all(create_mock_engine(_URLS[kind], note), checkfirst=False)
    return texts


def query_of_version(kind: str) -> str:
    """Return the query for the version of the tables."""
    return _text(select(meta.c.value).where(meta.c.name == VERSION), kind)


def query_of_schema() -> str:
    """Return PostgreSQL's query for the schema of the tables; see `HOLDING`."""
    return _text(HOLDING.bindparams(name=meta.name), "postgresql")


def _text(statement: Any, kind: str) -> str:
    literal = {"literal_binds": True}
    return str(statement.compile(dialect=dialect_of(kind), compile_kwargs=literal)).strip()
