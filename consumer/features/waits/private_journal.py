"""The journal of a worker that has none: SQLite in a folder of its own, gone with the worker.

Everything that a journal decides within one worker is decided as always: runs that end without a
word, dead letters, outcomes, and requests that are sent twice while it remembers them. Requests
that have to outlive the worker are in the wait topic.

A killed worker leaves its folder behind, and the next one of this user removes it. A worker holds a
lock in its own, which ends with the process, whatever ends that.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
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
PREFIX = "onceward_journal-"
LOCK = "lock"
# Another one on each machine, and after each of its starts.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class PrivateJournal:
    """Makes the journal, and deletes ended requests from it.

    Args:
        settings: with an empty `[journal] url`.

    Attributes:
        settings: the same with the url of this journal.
    """

    def __init__(self, settings: Settings) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=_prefix(), ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._lock = _locked(folder)
        if removed := sum(map(_is_removed, _others(folder))):
            log.info("journal.removed_others", folders=removed)
        url = f"sqlite:///{folder / 'journal.db'}"
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
        os.close(self._lock)

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


def _locked(folder: Path) -> int:
    """Make the lock's file, which has its name only when it is locked; return its descriptor.

    Where the file system has no locks it never has, so that nobody removes the folder.
    """
    new = folder / f"{LOCK}.new"
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        new.rename(folder / LOCK)
    return descriptor


def _others(folder: Path) -> Iterator[Path]:
    """Yield the folders of other workers that this user has run beside it."""
    for path in folder.parent.glob(f"{_prefix()}*"):
        with suppress(OSError):
            facts = path.lstat()
            # A folder for all users may hold anything of such a name.
            if path != folder and stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid():
                yield path


def _is_removed(folder: Path) -> bool:
    """Remove the folder of a worker that has ended; return whether it was one.

    Whatever hinders it hinders no worker: another one may remove it at the same moment.
    """
    try:
        # One that is no file of ours may be a pipe, and would be waited for.
        descriptor = os.open(folder / LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The lock last: without it nobody would ever remove the rest.
        for path in folder.iterdir():
            if path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()
    except OSError as error:
        log.debug("journal.not_removed", folder=str(folder), reason=str(error))
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _prefix() -> str:
    """Return how the names of our folders begin: locks of another machine would not be seen."""
    return f"{PREFIX}{BOOT_ID.read_text()[:8]}-"
