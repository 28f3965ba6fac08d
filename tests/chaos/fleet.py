"""The workers of a row, by number: started, killed, ended in order, started again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from feedback.clock import monotonic_s
from tests.kit.program import KeptProgram

STARTED_WITHIN_S = 60.0


class Fleet:
    """Workers; each start is a process of its own, with a log of its own.

    Args:
        launch: starts one, with settings for it alone, under a name.
    """

    def __init__(self, launch: Callable[[str, Mapping[str, str]], KeptProgram]) -> None:
        self._launch = launch
        self.all: list[KeptProgram] = []

    def start(
        self, count: int = 1, *, wait: bool = True, variables: Mapping[str, str] | None = None
    ) -> list[KeptProgram]:
        """Start so many, and return them when they work; at once where `wait` is false.

        Args:
            variables: environment variables for these alone.
        """
        first = len(self.all)
        begun = [
            self._launch(f"worker-{first + number + 1}", variables or {}) for number in range(count)
        ]
        self.all += begun
        for process in begun if wait else ():
            process.told("worker.started", timeout_s=STARTED_WITHIN_S)
        return begun

    @property
    def alive(self) -> list[KeptProgram]:
        """Those that run now."""
        return [process for process in self.all if process.is_alive]

    def kill_all(self) -> int:
        """Kill them all at one moment; return how many."""
        killed = self.alive
        for process in killed:
            process.send(signal.SIGKILL)
        for process in killed:
            process.ended(within_s=10.0)
        return len(killed)

    def end_all(self, limit_s: float) -> list[tuple[KeptProgram, float, int | None]]:
        """Ask all to end; return each with the seconds it took and its exit code.

        Args:
            limit_s: whoever still runs then is killed, and has None as its exit code.
        """
        ending = self.alive
        began_s = monotonic_s()
        for process in ending:
            process.send(signal.SIGTERM)
        ended = []
        for process in ending:
            code = process.ended(within_s=max(0.0, began_s + limit_s - monotonic_s()))
            ended.append((process, monotonic_s() - began_s, code))
            process.kill()
        return ended

    @property
    def ended_by_themselves(self) -> list[str]:
        """Those that nobody killed or asked to end, with what they ended with."""
        return [
            f"{process.name} ended with {process.exit_code}"
            for process in self.all
            if not process.asked_to_end and not process.is_alive
        ]
