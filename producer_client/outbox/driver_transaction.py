"""Whether a driver's connection would commit each statement by itself.

Another thread or task may wait, since this one can commit meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection


def uncommitted(joined: Connection) -> Callable[[], bool]:
    """Return whether the transaction that is open now still is; see `holds`."""
    transaction = joined.get_transaction()
    if transaction is None:  # its caller began it past SQLAlchemy
        return lambda: False
    kept = weakref.ref(transaction)
    return holds(lambda: (found := kept()) is not None and found.is_active)


def uncommitted_django(database: Any) -> Callable[[], bool]:
    """Return whether the outermost `atomic()` of now has not ended; see `holds`.

    Django begins a new list of its hooks with each commit, and each rollback.
    """
    hooks = database.run_on_commit
    return holds(lambda: database.in_atomic_block and database.run_on_commit is hooks)


def holds(is_open: Callable[[], bool]) -> Callable[[], bool]:
    """Return whether a transaction is open, and its thread and task are those that ask."""
    mine = _who()
    return lambda: _who() == mine and is_open()


def _who() -> tuple[int, object]:
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return threading.get_ident(), None


# libpq's PQtransactionStatus.
_IDLE = 0


def commits_by_itself(driver: Any) -> bool:
    """Whether a statement on this connection of sqlite3, aiosqlite or psycopg has no transaction.

    A driver in autocommit that was sent a BEGIN has one.
    """
    if not hasattr(driver, "in_transaction"):
        return bool(driver.autocommit) and not _has_begun(driver)
    if driver.in_transaction:
        return False
    # sqlite3: the classic mode without its own BEGIN, or the newer attribute (Python 3.12).
    return driver.isolation_level is None or getattr(driver, "autocommit", -1) is True


def _has_begun(driver: Any) -> bool:
    """Whether BEGIN was executed on a PostgreSQL connection that does not begin by itself."""
    info = getattr(driver, "info", None)
    return info is not None and info.transaction_status != _IDLE
