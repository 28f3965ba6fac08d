"""The journal of a worker that has none: SQLite in a folder of its own, gone with the worker.

Everything that a journal decides within one worker is decided as always: runs that end without a
word, dead letters, outcomes, and requests that are sent twice while it remembers them. Requests
that have to outlive the worker are in the wait topic.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from sqlalchemy import delete, text

from consumer.journal import migrate
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.tables import DEAD, OUTCOME, request, run
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.waits")

# In place of a journal's id: a group has one journal, or none.
NO_JOURNAL = "none"
# How long a request that was sent twice is known for sure.
REMEMBERED_MS = 60_000
FORGET_EVERY_S = 15.0


class PrivateJournal:
    """Makes the journal, and deletes ended requests from it.

    Args:
        settings: with an empty `[journal] url`.

    Attributes:
        settings: the same with the url of this journal.
    """

    def __init__(self, settings: Settings) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="onceward-")
        url = f"sqlite:///{Path(self._folder.name) / 'journal.db'}"
        migrate(url)
        section = settings.journal.model_copy(update={"url": url})
        self.settings = settings.model_copy(update={"journal": section})
        self._rows = _Rows(url, group=settings.kafka.group)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-forgetting", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, and remove the folder; everything that uses the journal has ended before."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._folder.cleanup()

    def _run(self) -> None:
        while not self._stopping.wait(FORGET_EVERY_S):
            log.debug("journal.forgot", requests=self._rows.forget(REMEMBERED_MS))
        self._rows.close()


class _Rows(GroupJournal):
    """Finds rows to delete; see `GroupJournal`."""

    def forget(self, after_ms: int) -> int:
        """Delete rows that ended so long ago, are confirmed, and owe no record; return how many."""
        settled = delete(request).where(
            request.c.state.not_in(("CLAIMED", "RETRYING")),
            request.c.published_at.is_not(None),
            request.c.finished_at < now_ms() - after_ms,
            text(f"NOT ({DEAD})"),
            text(f"NOT coalesce({OUTCOME}, 0)"),
        )
        known = request.c.request_id == run.c.request_id
        left = delete(run).where(~request.select().where(known).exists())
        with self._session.transaction() as connection:
            count = connection.execute(settled).rowcount
            if count:
                connection.execute(left)
        return count
