"""One held connection to the journal, and the transactions on it."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.journal.faults import translate
from feedback.sql.session import Session as DatabaseSession


class JournalSession(DatabaseSession):
    """Keeps one connection for one thread and opens it again after a fault.

    Its transactions raise JournalUnavailable when the database is away or busy (a commit's outcome
    is then unknown), DataRefused when it refuses the data (rolled back), and JournalVersionError
    when the journal's tables are missing.

    Args:
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.
        at_connect: SQL to run on every new connection to SQLite.
    """

    def __init__(self, url: str, *, timeout_s: float, at_connect: Sequence[str] = ()) -> None:
        super().__init__(url, timeout_s=timeout_s, translate=translate, at_connect=at_connect)
