"""Whether a name still leads to the database that a connection has.

A failover moves a host's name or a proxy to another server, a restore puts another file in a file's
place. A connection that was made before stays with the former one, which may answer still: nobody
sees what is committed there. So what a person decides is committed only where a connection that is
made anew meets the same database. Between that look and the commit the name may still move.

Servers are told apart by the time at which each was started, in microseconds: any user may read it,
and a standby that was promoted has its own. A pooler that has several connections to one server
answers alike on each.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, NullPool, text

from feedback.sql.engine import ALONE, FILE, file_of, open_engine

# A number: as a text it would depend on settings, which a pooler's other client may have left.
_SERVER = text(
    "SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint),"
    " current_database()"
)


class NamedDatabase:
    """The database that a URL leads to at the moment of asking.

    Args:
        url, timeout_s: see `open_engine`.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._engine: Engine | None = None

    def is_of(self, connection: Connection) -> bool:
        """Whether it is that of a connection, in whose transaction this is asked.

        Raises:
            DBAPIError: no other connection can be made.
        """
        if connection.dialect.name == "sqlite":
            return bool(connection.info.get(FILE) == file_of(connection.engine.url))
        if self._engine is None:
            pool = {"poolclass": NullPool}
            self._engine = open_engine(self._url, timeout_s=self._timeout_s, pool=pool)
        with self._engine.connect() as other:
            named = other.execution_options(**{ALONE: True}).execute(_SERVER).one()
        return tuple(named) == tuple(connection.execute(_SERVER).one())
