"""How threads of processes take their steps, and what can happen to each call that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from tests.simulation.clock import Clock
from tests.simulation.processes import Crash, Fault, FaultKind, Parked, Process, Violation

Found = TypeVar("Found")

# Which server is at the end of each link that a process has.
SERVER_OF = {
    "journal": "journal",
    "sweeps": "journal",
    "leases": "journal",
    "republishes": "journal",
    "children": "journal",
    "redis": "redis",
    "commits": "kafka",
    "kafka": "kafka",
    "pool": "pool",
}
DEPTH = 3
# Begins what the story need not tell as long as it goes well.
ROUTINE = "~"


class Calls(ABC):
    """Runs steps, and carries calls out or cuts them.

    Attributes:
        away: the servers that answer nobody, with the time since when.
        late: what was given up by those who asked for it, and is still under way.
        next_step: takes the next step of the schedule, also while a process hangs; None when
            faults are over.
        story: what happened, line by line, when somebody wants to read it.
    """

    def __init__(self, clock: Clock, *, tells: bool) -> None:
        self.clock = clock
        self.away: dict[str, int] = {}
        self.late: list[Callable[[], object]] = []
        self.next_step: Callable[[], bool] | None = None
        self.story: list[str] | None = [] if tells else None
        self._depth = 0

    @abstractmethod
    def bury(self, process: Process) -> None:
        """Let a process be dead."""

    def carry_out(self, server: str, action: Callable[[], Found]) -> Found:
        """Let a server do what it is asked."""
        return action()

    def run(self, process: Process, thread: str, action: Callable[[], object]) -> None:
        """Let one thread of a process take a step; what it raises by itself breaks the contract."""
        face, self.clock.face = self.clock.face, process.face
        process.busy.add(thread)
        try:
            action()
        except Parked:
            pass
        except Crash:
            self.bury(process)
        except Violation:
            raise
        except Exception as error:
            said = f"{process.name}, {thread}: {type(error).__name__} {error}"
            raise Violation("no part of a process fails", said) from error
        finally:
            process.busy.discard(thread)
            self.clock.face = face

    def call(
        self,
        process: Process,
        link: str,
        what: str,
        action: Callable[[], Found],
        unavailable: Callable[[str], Exception],
    ) -> Found:
        """Carry out a call to a server, with the fault that waits for it.

        Args:
            link: the connection it goes over.
            what: for the story.
            unavailable: makes the error that says that nobody answered.
        """
        fault = process.armed.pop(link, None) if self.next_step is not None else None
        server = SERVER_OF[link]
        if fault is not None:
            self.note(process, f"{what.lstrip(ROUTINE)}: {fault.kind}")
        elif server in self.away:
            self.note(process, f"{what.lstrip(ROUTINE)}: {server} is away")
        elif not what.startswith(ROUTINE):
            self.note(process, what)
        kind = None if fault is None else fault.kind
        if kind is FaultKind.CRASH_BEFORE:
            raise Crash
        if fault is not None and kind is FaultKind.STALL_BEFORE:
            self._hang(process, fault)
        if server in self.away or kind is FaultKind.LOST:
            raise unavailable(f"{server} does not answer")
        if kind is FaultKind.LATE:
            self.late.append(action)
            raise unavailable(f"{server} does not answer in time")
        found = self.carry_out(server, action)
        if kind is FaultKind.REPLY_LOST:
            raise unavailable(f"{server} does not answer any more")
        if kind is FaultKind.CRASH_AFTER:
            raise Crash
        if fault is not None and kind is FaultKind.STALL_AFTER:
            self._hang(process, fault)
        return found

    def _hang(self, process: Process, fault: Fault) -> None:
        if self.next_step is None or self._depth == DEPTH:
            return
        self._depth += 1
        was_frozen = process.frozen_ms is not None
        if fault.frozen:
            process.frozen_ms = process.frozen_ms or self.clock.true_ms
        if fault.meanwhile is not None:
            fault.meanwhile()
        for _ in range(fault.steps):
            if not process.alive or self.next_step is None or not self.next_step():
                break
        self._depth -= 1
        if not process.alive:
            raise Crash
        if not was_frozen:
            process.wake(self.clock.true_ms)
        self.note(process, "goes on")

    def note(self, process: Process | None, what: str) -> None:
        """Add a line to the story."""
        if self.story is not None:
            who = "" if process is None else f"{process.name} "
            self.story.append(f"{self.clock.elapsed_s:8.3f}  {'  ' * self._depth}{who}{what}")
