"""Redrives that threads of this console carry out.

The row of a redrive is in the journal before its person sees its page. Where the console dies
- before that, nothing was begun;
- after it, the redrive stands there as one that was cut off, and the journal names each request
  that it may not have sent: `onceward-dlq redrive --resume`, or any console, goes on with it, and
  sends none of them twice;
- when it is asked to end, each redrive stops behind its batch under way, and can be gone on with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_session import RedriveEnding
from feedback.clock import monotonic_s
from feedback.errors import OncewardError
from feedback.logs import EventLog
from feedback.sql.keeping import KEPT

log = EventLog("onceward.console")

AT_ONCE = 2
# Longer than a batch takes; a redrive that is not done then is cut off.
STOP_S = 10.0


@dataclass
class RedriveThread:
    """A redrive of this process.

    Attributes:
        read, total: letters that were read of those to read.
        fault: why it stopped before its end; empty while it runs, and where it was asked to.
    """

    stopping: threading.Event = field(default_factory=threading.Event)
    read: int = 0
    total: int = 0
    is_at_work: bool = True
    ending: RedriveEnding | None = None
    fault: str = ""

    def progressed(self, read: int, total: int) -> None:
        """Note how far it is."""
        self.read, self.total = read, total


class BackgroundRedrives:
    """The redrives of one console; any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._by_id: dict[str, RedriveThread] = {}

    def start(
        self, work: Callable[[RedrivePace], RedriveEnding], *, rate: float | None
    ) -> str | None:
        """Let a thread carry a redrive out; return its id as soon as its row is in the journal.

        None where too many are at work.

        Raises:
            OncewardError: it could not be begun.
        """
        one = RedriveThread()
        begun: Future[str] = Future()

        def note(redrive_id: str) -> None:
            self._by_id[redrive_id] = one
            begun.set_result(redrive_id)

        pace = RedrivePace(rate, one.stopping, one.progressed, note)
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if len(self._threads) >= AT_ONCE:
                return None
            # One that hangs does not hold up the end of the process: see above.
            thread = threading.Thread(target=_carry, args=(work, pace, one, begun), daemon=True)
            self._threads.append(thread)
            thread.start()
        return begun.result()

    def find(self, redrive_id: str) -> RedriveThread | None:
        """Return a redrive of this process; None where there is none."""
        return self._by_id.get(redrive_id)

    def is_at_work(self, redrive_id: str) -> bool:
        """Whether a redrive is at work in this process."""
        one = self._by_id.get(redrive_id)
        return one is not None and one.is_at_work

    def pause(self, redrive_id: str) -> None:
        """Let a redrive stop behind its batch, if it is at work in this process."""
        if self.is_at_work(redrive_id):
            self._by_id[redrive_id].stopping.set()

    def close(self) -> None:
        """Stop all, and wait for their batches under way."""
        for one in [*self._by_id.values()]:
            one.stopping.set()
        until_s = monotonic_s() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - monotonic_s()))


def _carry(
    work: Callable[[RedrivePace], RedriveEnding],
    pace: RedrivePace,
    one: RedriveThread,
    begun: Future[str],
) -> None:
    try:
        # A thread has a context of its own, not that of the action which began it.
        with KEPT.anew():
            one.ending = work(pace)
        if not begun.done():
            # It was done already when somebody wanted to go on with it.
            begun.set_result(one.ending.redrive_id)
    except Exception as error:
        one.fault = str(error)
        if not isinstance(error, OncewardError):
            log.exception("redrive.failed")
            one.fault = "a fault of ours: its stack is in the log of the console"
        if not begun.done():
            begun.set_exception(error)
    finally:
        one.is_at_work = False
