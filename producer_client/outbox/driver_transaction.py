"""Whether a driver's connection would commit each statement by itself."""

from __future__ import annotations

from typing import Any

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
