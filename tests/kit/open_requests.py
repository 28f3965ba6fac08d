"""PostgreSQL's copy of the open requests, held against the requests themselves."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from consumer.journal.tables import IS_OPEN, OPEN_COLUMNS

_COLUMNS = ", ".join(f'"{name}"' for name in OPEN_COLUMNS)
_TRUE = f"SELECT {_COLUMNS} FROM onceward_request WHERE {IS_OPEN}"
_COPIED = f"SELECT {_COLUMNS} FROM onceward_open"


def assert_open_requests_are_those_of_the_journal(connection: Connection) -> None:
    """Compare the copy, where the journal's tables are there and it says that it is complete."""
    tables = inspect(connection).get_table_names()
    if "onceward_open_look" not in tables or "onceward_request" not in tables:
        return
    if connection.execute(text("SELECT max(complete) FROM onceward_open_look")).scalar() != 1:
        return
    for one, other in ((_TRUE, _COPIED), (_COPIED, _TRUE)):
        differ = connection.execute(text(f"{one} EXCEPT {other}")).all()
        assert differ == []
