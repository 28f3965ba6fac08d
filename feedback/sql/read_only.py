"""Opens a journal to read it: no file is created, and no setting of the database changes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine, NullPool, create_engine, make_url

from feedback.sql.engine import open_engine


def open_reader(url: str, *, timeout_s: float) -> Engine:
    """Return an engine on an existing database; it connects at its first use.

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
    # Quoted twice: for SQLite's URI, which stands in SQLAlchemy's.
    path = quote(quote(str(Path(make_url(url).database or "").absolute())))
    return create_engine(
        f"sqlite:///file:{path}?mode=ro&uri=true",
        poolclass=NullPool,
        connect_args={"timeout": timeout_s},
    )
