"""The parent's side of one child: its socket, what it was given, and how it ended."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.context import SpawnProcess
from socket import socket

from consumer.pool.events import (
    ChildDied,
    ChildFailed,
    ChildReady,
    EffectAsked,
    Event,
    Finished,
    Started,
)
from consumer.pool.frames import Decoder, Frame, MalformedFrame
from consumer.pool.job import Job, PoolSettings
from consumer.pool.outcome import one_line
from consumer.pool.spawning import spawn
from consumer.pool.wire import (
    Report,
    pack_answer,
    pack_jobs,
    pack_stop,
    report_limit_bytes,
    unpack_report,
)
from feedback.clock import monotonic_s

_CHUNK_BYTES = 65536
_EXIT_LIMIT_S = 1.0


class Member:
    """One child of the pool, from its start to its burial.

    Nothing here blocks: what the child does not read waits in a buffer, which the jobs that it
    may hold bound.

    Args:
        settings: the pool's.
        failures: how many children before it, in its place, ended before they were ready.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, settings: PoolSettings, *, failures: int) -> None:
        self._process, self.sock = spawn(settings)
        self.death_fd = _death_fd(self._process, self.sock)
        self.pid = self._process.pid or 0
        self.failures = failures
        self.is_ready = False
        self.is_doomed = False
        self.watched = 0  # the selector's mask of the socket, kept by the pool
        # Monotonic time at which it is killed, and why.
        self.kill_by_s = monotonic_s() + settings.start_timeout_s
        self.overdue_reason = f"not ready within {settings.start_timeout_s:g} s"
        self._room = settings.slots_per_process + settings.prefetch
        self._decoder = Decoder(report_limit_bytes(settings))
        self._out = bytearray()
        self._held: dict[int, Job] = {}
        self._started: set[int] = set()
        self._asking: dict[tuple[str, int], int] = {}
        self._last_number = 0
        self._reason: str | None = None
        self._is_unreadable = False

    @property
    def free(self) -> int:
        """How many more jobs it may be given."""
        return self._room - len(self._held) if self.is_ready and not self.is_doomed else 0

    @property
    def busy(self) -> int:
        """How many of its slots run a job."""
        return len(self._started)

    @property
    def is_idle(self) -> bool:
        """Whether it is ready and holds nothing."""
        return self.is_ready and not self._held

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until its socket can be written again."""
        return bool(self._out)

    def give(self, jobs: Sequence[Job]) -> None:
        """Send it jobs, at most `free` of them."""
        first = self._last_number + 1
        self._last_number += len(jobs)
        numbered = list(enumerate(jobs, first))
        self._held.update(numbered)
        self._send(pack_jobs(numbered))

    def answer(self, request_id: str, generation: int, *, granted: bool) -> bool:
        """Answer a run that waits at its effect; return whether it has such a run."""
        number = self._asking.pop((request_id, generation), None)
        if number is None:
            return False
        self._send(pack_answer(number, granted=granted))
        return True

    def ask_to_stop(self) -> None:
        """Ask it to end by itself."""
        self._send(pack_stop())

    def flush(self) -> None:
        """Write what the socket takes of what waits."""
        try:
            while self._out:
                del self._out[: self.sock.send(self._out)]
        except BlockingIOError:
            return
        except ConnectionError:
            self._out.clear()  # it is dying; the end of its socket will say so

    def receive(self) -> list[Event]:
        """Return what it has told since. At the end of its stream it is given time to exit."""
        try:
            data = self.sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        if data:
            return self._understand(data)
        self.is_doomed = True
        self.kill_by_s = monotonic_s() + _EXIT_LIMIT_S
        self.overdue_reason = "closed its socket and did not exit"
        return []

    def doom(self, reason: str | None) -> None:
        """Kill it; `reason` in words stands in for the exit code."""
        self.is_doomed = True
        self.kill_by_s = math.inf
        self._reason = self._reason or reason
        self._process.kill()

    def bury(self) -> list[Event]:
        """Return its last words and its death, after the kernel said that it has ended."""
        events: list[Event] = []
        while not self._is_unreadable:
            try:
                data = self.sock.recv(_CHUNK_BYTES)
            except (BlockingIOError, ConnectionError):
                break
            if not data:
                break
            events += self._understand(data)
        self.is_doomed = True
        if self._process.exitcode is None:
            self._process.join(_EXIT_LIMIT_S)
        events.append(self._death())
        self.sock.close()
        os.close(self.death_fd)
        if self._process.exitcode is not None:
            self._process.close()
        return events

    def _send(self, frame: bytes) -> None:
        self._out += frame
        self.flush()

    def _understand(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        try:
            for frame in self._decoder.feed(data):
                events += self._read(frame)
        except MalformedFrame as error:
            self._is_unreadable = True
            self._started.update(self._held)  # what it told after this is lost: any may have run
            self.doom(f"sent a malformed frame: {error}")
        return events

    def _read(self, frame: Frame) -> Iterator[Event]:
        report = unpack_report(frame)
        if report.ready and not self.is_ready:
            self.is_ready = True
            self.kill_by_s = math.inf
            yield ChildReady(self.pid)
        if report.failed is not None and not self.is_ready:
            self._reason = one_line(report.failed)
        yield from self._job_events(report)

    def _job_events(self, report: Report) -> Iterator[Event]:
        try:
            for number in report.started:
                job = self._held[number]
                self._started.add(number)
                yield Started(job.request_id, job.generation)
            for number in report.asked:
                job = self._held[number]
                self._asking[job.request_id, job.generation] = number
                yield EffectAsked(job.request_id, job.generation)
            for number, outcome in report.finished:
                self._started.remove(number)
                job = self._held.pop(number)
                if self._asking:
                    self._asking.pop((job.request_id, job.generation), None)
                yield Finished(job.request_id, job.generation, outcome)
        except KeyError:
            raise MalformedFrame("it tells of a job that it does not hold") from None

    def _death(self) -> Event:
        reason = self._reason or _in_words(self._process.exitcode)
        if not self.is_ready:
            told = reason if self._reason else f"{reason} before it was ready"
            return ChildFailed(self.pid, told)
        started = tuple(job for number, job in self._held.items() if number in self._started)
        others = tuple(job for number, job in self._held.items() if number not in self._started)
        return ChildDied(self.pid, reason, started, others)


def _death_fd(process: SpawnProcess, sock: socket) -> int:
    """Return what becomes readable when the process ends; the caller closes it.

    A fork of the handler's own may hold the sentinel open, and the socket, beyond the child's
    death; a pidfd knows better. Kernels before 5.3 have none.
    """
    try:
        return os.pidfd_open(process.pid or 0)
    except OSError:
        try:
            return os.dup(process.sentinel)
        except OSError:
            process.kill()
            process.join()
            sock.close()
            raise


def _in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "gone, and something else has taken its exit code"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"
