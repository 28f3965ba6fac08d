"""Opens a journal to read from it: nothing is created, and nothing of how it is written changes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine, NullPool, create_engine, make_url

from feedback.sql.engine import open_engine


def open_reader(url: str, *, timeout_s: float) -> Engine:
    """Return an engine on a database that is there; it connects when it is first used.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://...`, as `open_engine` takes it.
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.

    Raises:
        SettingsError: the URL is of another database.
        NotAvailable: the driver is not installed.
    """
    engine = open_engine(url, timeout_s=timeout_s, pool={"poolclass": NullPool})
    if engine.dialect.name != "sqlite":
        return engine
    # Quoted for SQLite's URI, and that for SQLAlchemy's.
    path = quote(quote(str(Path(make_url(url).database or "").absolute())))
    return create_engine(
        f"sqlite:///file:{path}?mode=ro&uri=true",
        poolclass=NullPool,
        connect_args={"timeout": timeout_s},
    )
