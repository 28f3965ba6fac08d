"""The database's clock: the only source of the times that the journal stores."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ScalarSelect, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

_JULIAN_EPOCH_MS = 210_866_760_000_000


class now_ms(FunctionElement[int]):
    """Epoch milliseconds of the database's clock, at the time the statement runs."""

    type = BigInteger()
    inherit_cache = True


def once() -> ScalarSelect[int]:
    """Return the clock read once for a whole statement: only such a bound can use an index."""
    return select(now_ms()).scalar_subquery()


@compiles(now_ms, "postgresql")
def _on_postgresql(element: now_ms, compiler: SQLCompiler, **kw: Any) -> str:
    # Not now(): that is the start of the transaction, which may have waited for a lock since.
    return "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"


@compiles(now_ms, "sqlite")
def _on_sqlite(element: now_ms, compiler: SQLCompiler, **kw: Any) -> str:
    # unixepoch('subsec') needs SQLite 3.42. SQLite keeps a day as whole milliseconds, so rounding
    # the product gives exactly that count back.
    return f"(CAST(round(julianday('now') * 86400000.0) AS INTEGER) - {_JULIAN_EPOCH_MS})"
