"""The workers: real processes, started, killed and started again."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from redis.exceptions import RedisError

from feedback.errors import ExitCode, NotAvailable, OncewardError
from feedback.redis.store import StatusStore
from onceward.servers.errors import tail
from onceward.servers.keeper import Keeper
from tests.demo.scene import Scene
from tests.eventually import eventually

READY_WITHIN_S = 45.0
LOG_LINES = 5


class WorkerEnded(OncewardError):
    """A worker ended by itself, which the demo never asks for.

    Args:
        worker: its name. code: what it ended with; 3 means that something it needs is not there.
        log: where it says why.
    """

    def __init__(self, worker: str, code: int, log: Path) -> None:
        super().__init__(worker, code, log)
        self.worker = worker
        self.code = code
        self.log = log
        self.exit_code = (
            ExitCode.NOT_AVAILABLE if code == ExitCode.NOT_AVAILABLE else ExitCode.INTERNAL
        )

    def __str__(self) -> str:
        last = tail(self.log, LOG_LINES)
        return f"{self.worker} ended by itself with code {self.code}; {self.log} ends with\n{last}"


class Phase(StrEnum):
    """Where a worker stands."""

    STARTING = "starting"
    ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker as it is now; it keeps its name when it is started again."""

    name: str
    pid: int
    phase: Phase
    kills: int = 0


class Workers:
    """The demo's workers, numbered from 0.

    Args:
        keeper: owns the processes.
        store: has their heartbeats.
    """

    def __init__(self, keeper: Keeper, scene: Scene, store: StatusStore) -> None:
        self._keeper = keeper
        self._scene = scene
        self._store = store
        self.all: list[WorkerProcess] = []

    def start(self, count: int) -> None:
        """Start them, and return when each has a heartbeat.

        Raises:
            WorkerEnded: one did not stay.
            NotAvailable: one has no heartbeat after `READY_WITHIN_S`.
        """
        for number in range(count):
            name = f"worker-{number + 1}"
            self.all.append(WorkerProcess(name, self._launch(name), Phase.STARTING))
        self.await_alive(self.look)

    def await_alive(self, look: Callable[[], object]) -> None:
        """Return when each has a heartbeat; `look` sees after them meanwhile.

        Raises:
            WorkerEnded: one did not stay.
            NotAvailable: one has no heartbeat after `READY_WITHIN_S`.
        """

        def are_alive() -> bool:
            look()
            return all(worker.phase is Phase.ALIVE for worker in self.all)

        try:
            eventually(are_alive, timeout_s=READY_WITHIN_S, what="a heartbeat of each worker")
        except TimeoutError as error:
            raise NotAvailable(f"{error}; their logs are in {self._scene.folder}") from error

    def kill(self, number: int) -> WorkerProcess:
        """Kill a worker with SIGKILL, start it again at once, return it as it was."""
        killed = self.all[number]
        os.kill(killed.pid, signal.SIGKILL)
        self._keeper.stop(killed.pid)  # it is reaped here; nothing is left to stop
        pid = self._launch(killed.name)
        self.all[number] = replace(killed, pid=pid, phase=Phase.STARTING, kills=killed.kills + 1)
        return killed

    def look(self) -> list[WorkerProcess]:
        """See after the workers; return those that have their first heartbeat since last time.

        Raises:
            WorkerEnded: one did not stay.
        """
        fresh = []
        for number, worker in enumerate(self.all):
            code = self._keeper.exit_code(worker.pid)
            if code is not None:
                raise WorkerEnded(worker.name, code, self._scene.worker_command(worker.name).log)
            if worker.phase is Phase.STARTING and self._beats(worker.pid):
                self.all[number] = replace(worker, phase=Phase.ALIVE)
                fresh.append(self.all[number])
        return fresh

    def _launch(self, name: str) -> int:
        return self._keeper.start(self._scene.worker_command(name))

    def _beats(self, pid: int) -> bool:
        # A worker's id is <host>-<pid>-<random> (docs: Words).
        pattern = self._store.worker_key(f"*-{pid}-*")
        try:
            return any(True for _ in self._store.redis.scan_iter(match=pattern, count=1000))
        except RedisError:
            return False  # not to be seen now; it is looked for again
