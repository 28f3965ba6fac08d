"""Ends sessions of ours on PostgreSQL whose process stands still in the middle of a statement.

A process that is stopped (SIGSTOP, a frozen host) while it sends a statement leaves its session
`active` and waiting for the rest. PostgreSQL's own limits do not end that: it is no idle
transaction, a statement that is cancelled while it is read goes on being read, and the kernel of
the stopped process still acknowledges packets. Its locks would stay for as long as it stands.

So whoever connects looks for such sessions first. Who waited for their locks is cancelled after
its own limit, connects again, and so frees itself.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

# The same for all who share a name, however short their own limits are: a client's outbox must not
# end the session of a worker that is only slow.
STILL_S = 5.0
# Its own role may end them without further rights. A user's own statements, where a long COPY
# looks the same, have another application name.
_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()
  AND state = 'active' AND wait_event_type = 'Client' AND wait_event = 'ClientRead'
  AND query_start < clock_timestamp() - make_interval(secs => %s)
"""


def end_stuck_sessions(engine: Engine) -> None:
    """Let each new connection to PostgreSQL end the sessions of its name that stand still."""

    @event.listens_for(engine, "connect")
    def _end(connection: Any, record: object) -> None:
        wanted, connection.autocommit = connection.autocommit, True
        connection.execute(_END, (STILL_S,))
        connection.autocommit = wanted
