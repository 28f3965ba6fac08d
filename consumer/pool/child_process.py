"""The parent's side of one child: its socket, its jobs, and its end."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from consumer.pool.events import ChildDied, ChildFailed, ChildReady, ChildRetired, Event
from consumer.pool.exit_watch import exit_fd, exit_words
from consumer.pool.frames import Frame, FrameDecoder, MalformedFrame
from consumer.pool.handover import HandoverClock
from consumer.pool.job import Job, PoolSettings
from consumer.pool.jobs_in_child import JobsInChild
from consumer.pool.outcome import one_line
from consumer.pool.respawn_policy import RespawnReason
from consumer.pool.spawning import spawn
from consumer.pool.wire import (
    pack_answer,
    pack_jobs,
    pack_log_level,
    pack_stop,
    report_limit_bytes,
    unpack_report,
)
from feedback.clock import monotonic_s

_CHUNK_BYTES = 65536
_DRAIN_CHUNKS = 256  # 16 MiB: more than any socket holds, and an end for one that never stops
_EXIT_LIMIT_S = 1.0
_RETIRED_EXIT_LIMIT_S = 5.0
_PROVEN_S = 1.0
_LEAST_EXCUSE_S = 0.05


class ChildProcess:
    """One child of the pool, from its start to its burial.

    Nothing here blocks: frames that the child does not read wait in a buffer. The number of jobs
    that it may hold bounds that buffer.

    Args:
        settings: the pool's.
        failures: how many starts before it, in its place, have failed in a row.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, settings: PoolSettings, *, failures: int) -> None:
        self._process, self.sock = spawn(settings)
        self.exit_fd = exit_fd(self._process, self.sock)
        self.pid = self._process.pid or 0
        self.failures = failures
        self.is_ready = False
        self.is_spare = True  # until the supervisor has a place for it
        self.is_doomed = False
        self.is_retired = False
        self.is_outdated = False  # this child has read newer handlers than the worker's
        self.why = RespawnReason.DIED
        self.watched = 0  # the selector's mask of the socket, kept by the pool
        self.begun_s = monotonic_s()
        # Monotonic time at which it is killed, and why.
        self.kill_by_s = self.begun_s + settings.start_timeout_s
        self.kill_reason = f"not ready within {settings.start_timeout_s:g} s"
        self._starved_s = 0.0
        self._ready_s = math.inf
        self._room = settings.slots_per_process + settings.prefetch
        self._declarations = settings.declarations
        self._most_jobs = settings.max_requests_per_child or sys.maxsize
        self._decoder = FrameDecoder(report_limit_bytes(settings))
        self._out = bytearray()
        self.handover = HandoverClock(
            slots=settings.slots_per_process, limit_s=settings.handover_timeout_s
        )
        self.jobs = JobsInChild(self.handover)
        self._reason: str | None = None
        self._retired_for = ""
        self._is_unreadable = False

    @property
    def is_serving(self) -> bool:
        """Whether it takes jobs when it has room."""
        return self.can_serve and not self.is_spare

    @property
    def can_serve(self) -> bool:
        """Whether it could take jobs if it had a place."""
        return self.is_ready and not self.is_doomed and not self.is_retired

    @property
    def free(self) -> int:
        """How many more jobs it may be given."""
        if not self.is_serving or self.handover.is_late:
            return 0
        return min(self._room - len(self.jobs.held), self._most_jobs - self.jobs.given)

    @property
    def is_idle(self) -> bool:
        """Whether it is ready and holds nothing."""
        return self.is_ready and not self.jobs.held

    @property
    def is_new(self) -> bool:
        """Whether it has never been given a job."""
        return self.jobs.given == 0

    @property
    def is_spent(self) -> bool:
        """Whether it has been given as many jobs as a child gets."""
        return self.jobs.given >= self._most_jobs

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until its socket can be written again."""
        return bool(self._out)

    @property
    def next_s(self) -> float:
        """The monotonic time at which it is to be looked after."""
        if self.is_doomed:  # the limits of its runs and its start no longer count
            return self.kill_by_s
        return min(self.kill_by_s, self.jobs.first_end_s, self.handover.due_s)

    def give(self, jobs: Sequence[Job]) -> None:
        """Send it jobs, at most `free` of them."""
        self._send(pack_jobs(self.jobs.enter(jobs)))

    def answer(self, request_id: str, generation: int, *, granted: bool) -> bool:
        """Answer a run that waits at its effect; return whether it has such a run."""
        number = self.jobs.take_asking(request_id, generation)
        if number is None:
            return False
        self._send(pack_answer(number, granted=granted))
        return True

    def set_log_level(self, level: str) -> None:
        """Change the level of its logs."""
        self._send(pack_log_level(level))

    def ask_to_stop(self) -> None:
        """Ask it to end by itself."""
        self._send(pack_stop())

    def retire(self, reason: str) -> None:
        """Let it end when its jobs are done, with `reason` in words; it gets no other."""
        self.is_retired = True
        self._retired_for = reason
        self._dismiss_when_done()

    def flush(self) -> None:
        """Write as much of the waiting frames as the socket takes."""
        try:
            while self._out:
                del self._out[: self.sock.send(self._out)]
        except BlockingIOError:
            return
        except ConnectionError:
            self._out.clear()  # it is dying; the end of its socket will say so

    def receive(self) -> list[Event]:
        """Return its events since the last call; at the end of its stream, let it exit."""
        data = self._read()
        if data is None:
            return []
        if data:
            events = self._understand(data)
            if self.is_retired:
                self._dismiss_when_done()
            return events
        self.is_doomed = True
        self.kill_by_s = monotonic_s() + _EXIT_LIMIT_S
        self.kill_reason = "closed its socket and did not exit"
        return []

    def drain(self) -> list[Event]:
        """Return all that it has told and the kernel still holds."""
        events: list[Event] = []
        for _ in range(_DRAIN_CHUNKS):
            data = None if self._is_unreadable else self._read()
            if not data:
                break
            events += self._understand(data)
        return events

    def doom(self, reason: str | None, why: RespawnReason = RespawnReason.DIED) -> None:
        """Kill it; `reason` in words stands in for the exit code."""
        self.is_doomed = True
        self.kill_by_s = math.inf
        if self._reason is None and reason is not None:
            self._reason, self.why = reason, why
        self._process.kill()

    def excuse(self) -> bool:
        """Put off the end of a start that waited for a processor; return whether it did.

        On a busy host a new start would come no further, and its work would be done twice.
        """
        if self.is_ready or self.is_doomed:
            return False
        starved_s = _waited_for_processor_s(self.pid)
        more_s, self._starved_s = starved_s - self._starved_s, starved_s
        self.kill_by_s += more_s
        return more_s > _LEAST_EXCUSE_S

    def bury(self) -> list[Event]:
        """Return its last words and its death, after the kernel said that it has ended."""
        events = self.drain()
        self.is_doomed = True
        if self._process.exitcode is None:
            self._process.join(_EXIT_LIMIT_S)
        if self._reason is None:
            told = exit_words(self._process.exitcode)
            self._reason = told if self.is_ready else f"{told} before it was ready"
        events.append(self._death(self._reason))
        self.sock.close()
        os.close(self.exit_fd)
        if self._process.exitcode is not None:
            self._process.close()
        return events

    def failed_start(self, now_s: float) -> str | None:
        """Return why its start counts as failed, None when it does not; after its burial."""
        if not self.is_ready:
            return self._reason
        if self.is_new and now_s - self._ready_s < _PROVEN_S:
            return f"{self._reason} right after it was ready"
        return None

    def _send(self, frame: bytes) -> None:
        self._out += frame
        self.flush()

    def _read(self) -> bytes | None:
        try:
            return self.sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def _understand(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        try:
            for frame in self._decoder.feed(data):
                events += self._heard(frame)
        except MalformedFrame as error:
            self._is_unreadable = True
            self.jobs.suspect_all()  # its later reports are lost: any job may have run
            self.doom(f"sent a malformed frame: {error}")
        return events

    def _heard(self, frame: Frame) -> Iterator[Event]:
        report = unpack_report(frame)
        if report.ready and self._declarations not in ("", report.declarations):
            self.is_outdated = True
            self.doom("declares other handlers than its worker", RespawnReason.START_FAILED)
        elif report.ready and not self.is_ready:
            self.is_ready = True
            self._ready_s = monotonic_s()
            self.kill_by_s = math.inf
            yield ChildReady(self.pid)
        if report.failed is not None and not self.is_ready:
            self._reason = one_line(report.failed)
        yield from self.jobs.hear(report)

    def _dismiss_when_done(self) -> None:
        if self.is_idle and not self.is_doomed and self.kill_by_s == math.inf:
            self.ask_to_stop()
            self.kill_by_s = monotonic_s() + _RETIRED_EXIT_LIMIT_S
            self.kill_reason = "retired and did not exit"

    def _death(self, reason: str) -> Event:
        if not self.is_ready:
            return ChildFailed(self.pid, reason)
        if self.is_retired and not self.jobs.held:
            return ChildRetired(self.pid, self._retired_for)
        return ChildDied(self.pid, reason, *self.jobs.ends())


def _waited_for_processor_s(pid: int) -> float:
    """Return how long a process was ready to run and did not; 0 where the kernel does not count."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
