"""Sorts a driver's errors by the caller's remedy.

A reason carries no SQL, no parameters and no server's text about a value: those may hold a user's
payload.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError

from feedback.errors import SecurityFault
from feedback.security import of_database
from feedback.sql.refusals import NO_SCHEMA, NO_TABLE, of_statement

# https://www.sqlite.org/rescode.html, primary codes.
_SQLITE_REFUSED = frozenset(
    {
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
    }
)
_SQLITE_ERROR_MASK = 0xFF
# SQLSTATE classes of the PostgreSQL manual, appendix A; psycopg's errors carry `sqlstate`.
_REFUSED_CLASSES = frozenset({"22", "23", "54"})
_CONTENDED = frozenset({"40001", "40P01"})
_NO_TABLE = frozenset({NO_TABLE, NO_SCHEMA, "42703"})
# A wrong statement is a fault of this program: it must not look like an outage.
_PROGRAM_CLASSES = frozenset({"0A", "42"})
NO_PRIVILEGE = "42501"


class FaultKind(StrEnum):
    """The kinds of faults, by the caller's remedy."""

    AWAY = "away"
    CONTENDED = "contended"
    REFUSED = "refused"
    NO_TABLE = "no_table"


class SqlFault(NamedTuple):
    """A driver's error: its kind, and one line that holds no data.

    Args:
        security: the fault of security that is its cause, if one is.
    """

    kind: FaultKind
    reason: str
    security: SecurityFault | None = None


def sort(error: DBAPIError, section: str) -> SqlFault | None:
    """Return the kind of an error, with a reason; None when it is a fault of this program.

    Args:
        error: SQLAlchemy's error; `error.orig` is the driver's own.
        section: the section of the settings with the database's URL.
    """
    if (refused := _of_refusal(error, section)) is not None:
        return refused
    return _of_sqlite(error.orig) if isinstance(error.orig, sqlite3.Error) else _of_postgres(error)


def _of_refusal(error: DBAPIError, section: str) -> SqlFault | None:
    why: SecurityFault | None = getattr(error.orig, "onceward_fault", None)
    if getattr(error.orig, "sqlstate", None) == NO_PRIVILEGE:
        why = of_statement(str(error.orig), error.statement or "", of_database(section))
    return None if why is None else SqlFault(FaultKind.AWAY, why.said, why)


def _of_sqlite(error: sqlite3.Error) -> SqlFault | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the driver itself, not by SQLite
        return SqlFault(FaultKind.AWAY, type(error).__name__) if _is_closed(error) else None
    primary = code & _SQLITE_ERROR_MASK
    if primary in _SQLITE_REFUSED:
        return SqlFault(FaultKind.REFUSED, f"{type(error).__name__} {error.sqlite_errorname}")
    if primary != sqlite3.SQLITE_ERROR:
        return SqlFault(FaultKind.AWAY, f"{first_line(error)}, {error.sqlite_errorname}")
    return SqlFault(FaultKind.NO_TABLE, "no such table") if "no such table" in str(error) else None


def _is_closed(error: sqlite3.Error) -> bool:
    return isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error)


def _of_postgres(error: DBAPIError) -> SqlFault | None:
    name = type(error.orig).__name__
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:  # not from the server: connecting failed, or the connection broke
        if error.connection_invalidated or name in ("OperationalError", "ConnectionTimeout"):
            return SqlFault(FaultKind.AWAY, f"{name}: {first_line(error.orig)}")
        return SqlFault(FaultKind.REFUSED, name) if name == "DataError" else None
    if state[:2] in _REFUSED_CLASSES:
        return SqlFault(FaultKind.REFUSED, f"{name} {state}")
    if state in _CONTENDED:
        return SqlFault(FaultKind.CONTENDED, f"{name} {state}")
    if state in _NO_TABLE:
        return SqlFault(FaultKind.NO_TABLE, f"{name} {state}")
    if state[:2] in _PROGRAM_CLASSES:
        return None
    return SqlFault(FaultKind.AWAY, f"{name} {state}")


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's text; only for errors without a request's data."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
