"""Ends sessions of ours on PostgreSQL whose process stands still in the middle of a statement.

A process that is stopped (SIGSTOP, a frozen host) while it sends a statement leaves its session
`active`, waiting for the rest, with its locks. PostgreSQL's own limits do not end it:

- it is no idle transaction;
- a cancelled statement goes on being read until it is complete;
- the kernel of the stopped process still acknowledges packets.

So each new connection first ends stuck sessions. A session that waits for their locks is cancelled
after its own limit, connects again, and so frees itself.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

# The same for all processes of one application name, however short their own limits: a client's
# outbox must not end the session of a worker that is only slow.
STILL_S = 5.0
# A role may end its own sessions without further rights. A long COPY of the user's looks the same,
# but the user's statements run under another application name.
_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()
  AND state = 'active' AND wait_event_type = 'Client' AND wait_event = 'ClientRead'
  AND query_start < clock_timestamp() - make_interval(secs => {still_s})
"""


def end_stuck_sessions(engine: Engine, begin: str) -> None:
    """Let each new connection to PostgreSQL end the stuck sessions of its application name.

    Args:
        begin: the SQL that begins a transaction with our own limits. A pooler may give us a
            connection on which somebody else has left a shorter one, and each try to connect would
            end by that.
    """
    # Without parameters, so that all of it is one round trip.
    look = f"{begin}; {_END.format(still_s=STILL_S)}; COMMIT"

    @event.listens_for(engine, "connect")
    def _end(connection: Any, record: object) -> None:
        wanted, connection.autocommit = connection.autocommit, True
        connection.execute(look)
        connection.autocommit = wanted
