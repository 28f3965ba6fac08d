"""The child's way out: reports of its threads, combined into few writes.

The thread that writes takes along the reports that others appended meanwhile. No thread blocks
here: when the socket is full because the parent is busy, a thread made for it writes the rest. That
thread also writes reports that are not urgent. It gets its turn when the others wait, or after the
interpreter's switch interval (5 ms).

A job is handed to its slot only after the kernel has the bytes that say it started, so a child
that is killed at any moment has told of everything that may have run.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from socket import MSG_DONTWAIT, socket

from consumer.pool.fatal import ends_child
from consumer.pool.outcome import Outcome
from consumer.pool.wire import Numbered, pack_report

JobTaker = Callable[[Sequence[Numbered]], None]


@dataclass(slots=True)
class _Note:
    starting: Sequence[Numbered] = ()
    asked: int | None = None
    finished: tuple[int, Outcome] | None = None


class Outbox:
    """Writes reports to the parent.

    Args:
        sock: the child's end, in blocking mode.
    """

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self._hand_over: JobTaker | None = None
        self._notes: deque[_Note] = deque()
        self._writing = threading.Lock()
        self._rest = memoryview(b"")
        self._starting: list[Numbered] = []
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_writer_awake = False
        self._has_writer = False

    def hand_to(self, hand_over: JobTaker) -> None:
        """Set the taker of jobs whose start has been reported; it must not block."""
        self._hand_over = hand_over

    def start(self, jobs: Sequence[Numbered]) -> None:
        """Tell that the jobs start, then hand them over."""
        self._notes.append(_Note(starting=jobs))
        self._write()

    def ask(self, number: int) -> None:
        """Tell that a run waits at its effect."""
        self._notes.append(_Note(asked=number))
        self._write()

    def finish(
        self, number: int, outcome: Outcome, *, following: Sequence[Numbered], is_urgent: bool
    ) -> None:
        """Tell how a run ended, and that the job that `following` holds takes its slot.

        Args:
            number: the job.
            outcome: how it ended.
            following: one job or none.
            is_urgent: write it here; else the writing thread does, together with others.
        """
        self._notes.append(_Note(starting=following, finished=(number, outcome)))
        if is_urgent:
            self._write()
        else:
            self._wake_writer()

    def _write(self) -> None:
        # Looked at again after each release: a thread that appended meanwhile found the lock taken
        # and left.
        while self._notes and self._writing.acquire(blocking=False):
            try:
                is_written = self._write_notes(MSG_DONTWAIT)
            finally:
                self._writing.release()
            if not is_written:
                self._wake_writer()
                return

    def _wake_writer(self) -> None:
        if self._is_writer_awake:
            return
        self._is_writer_awake = True
        self._wakes.put(None)
        if not self._has_writer:
            self._has_writer = True
            threading.Thread(target=self._write_on_demand, name="outbox", daemon=True).start()

    @ends_child
    def _write_on_demand(self) -> None:
        while True:
            self._wakes.get()
            # First: a report that is appended from here on wakes it again.
            self._is_writer_awake = False
            with self._writing:
                self._write_notes(0)
            self._write()

    def _write_notes(self, flags: int) -> bool:
        while self._rest or self._notes:
            if not self._rest:
                self._rest = memoryview(self._pack())
            try:
                sent_bytes = self._sock.send(self._rest, flags)
            except BlockingIOError:
                return False
            except ConnectionError:
                os._exit(0)  # the parent is gone, and nobody may work for nobody
            self._rest = self._rest[sent_bytes:]
            if not self._rest and self._starting and self._hand_over is not None:
                self._hand_over(self._starting)
        return True

    def _pack(self) -> bytes:
        asked: list[int] = []
        finished: list[tuple[int, Outcome]] = []
        self._starting = []
        while self._notes:
            note = self._notes.popleft()
            self._starting += note.starting
            if note.asked is not None:
                asked.append(note.asked)
            if note.finished is not None:
                finished.append(note.finished)
        started = [number for number, _ in self._starting]
        return pack_report(started=started, asked=asked, finished=finished)
