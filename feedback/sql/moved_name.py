"""Whether a name still leads to the database that a connection has.

A failover moves a host's name or a proxy to another server, a restore puts another file in a file's
place. A connection that was made before stays with the former one, which may answer still: nobody
sees what is committed there. So what a person decides is committed only where a connection that was
made anew for it meets the same database. From then to the commit the name may still move.

Servers are told apart by the time at which each was started, in microseconds: any user may read it,
and a standby that was promoted has its own. A pooler that has several connections to one server
answers alike on each.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from feedback.sql.engine import FILE, file_of

# A number: as a text it would depend on settings, which a pooler's other client may have left.
_SERVER = text(
    "SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint),"
    " current_database()"
)

DatabasePlace = tuple[int | str, ...]


def place_of(connection: Connection) -> DatabasePlace | None:
    """Return which server and database, or which file, a connection has; None for no file."""
    if connection.dialect.name == "sqlite":
        return connection.info.get(FILE)
    return tuple(connection.execute(_SERVER).one())


def has_other_file(connection: Connection) -> bool:
    """Whether the name of the file that a connection has opened leads to another one, or none."""
    return place_of(connection) != file_of(connection.engine.url)
