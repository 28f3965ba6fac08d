"""The rounds: each system in turn, started anew, warmed up, measured case by case, stopped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.measure.cost import Meters, Reading, cost
from tests.bench.measure.processes import own_cpu_s
from tests.bench.plan import Case, Plan, System, turned
from tests.bench.rows import Measured
from tests.bench.sampling import sampled, write_shares
from tests.bench.submit.process import Answer, ask
from tests.bench.systems.onceward import onceward
from tests.bench.systems.peers import PEERS
from tests.bench.systems.trial import Trial, server_meters
from tests.stack import Servers

ANSWER_LIMIT_S = 180.0
LOGS = ("worker.log", "client.log")

Say = Callable[[str], None]


def opened(servers: Servers, system: System, folder: Path) -> AbstractContextManager[Trial]:
    """Return the worker and the submitting process of a system, which run while it is entered."""
    if system.journal is None or system.engine is None:
        return PEERS[system].run(servers, folder=folder)
    engine = {"ONCEWARD_KAFKA__CLIENT": system.engine}
    return onceward(servers, journal=system.journal, folder=folder, changes=engine)


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of a plan.

    Attributes:
        folder: where journals lie while they are used, so on this disk; and profiles for good.
        say: told what is being done.
    """

    plan: Plan
    servers: Servers
    folder: Path
    say: Say

    def run(self) -> Iterator[Measured]:
        """Yield each measurement as it is made.

        Raises:
            BenchError: a system could not be measured; ends with its last log lines.
        """
        for number in range(1, self.plan.rounds + 1):
            for system in turned(self.plan.systems, number):
                with tempfile.TemporaryDirectory(prefix="trial-", dir=self.folder) as name:
                    yield from self._try(system, number, Path(name))

    def _try(self, system: System, number: int, folder: Path) -> Iterator[Measured]:
        self.say(f"round {number} of {self.plan.rounds}: {system} starts")
        try:
            with opened(self.servers, system, folder) as trial:
                self._ask(trial, Case(), self.plan.warm_up_of(system))
                for case in self.plan.cases:
                    self.say(f"round {number} of {self.plan.rounds}: {system}, {case.name}")
                    yield self._measure(trial, system, case, number)
        except BenchError as error:
            logs = "\n".join(f"--- {name}\n{tail(folder / name)}" for name in LOGS)
            raise BenchError(f"{system}: {error}\n{logs}") from error

    def _measure(self, trial: Trial, system: System, case: Case, number: int) -> Measured:
        beside = self._beside(trial)
        with self._profiled(trial, f"{system}-{case.name}-{number}"):
            before = Reading.take(trial.parts, beside)
            answer = self._ask(trial, case, self.plan.burst_of(system))
            after = Reading.take(trial.parts, beside)
        return Measured(
            system=system,
            case=case,
            round=number,
            answer=answer,
            cost=cost(before, after),
            pss_mib=trial.memory_mib() if case.rate_per_s is None else None,
        )

    def _ask(self, trial: Trial, case: Case, count: int) -> Answer:
        return ask(
            trial.submitting,
            case,
            count=count,
            seconds=self.plan.rate_seconds,
            timeout_s=ANSWER_LIMIT_S,
            watched_pid=trial.worker.pid,
        )

    def _beside(self, trial: Trial) -> Meters:
        every = server_meters(self.servers)
        idle = {name: meter for name, meter in every.items() if name not in trial.servers}
        return {**idle, "bench": partial(own_cpu_s, os.getpid())}

    @contextmanager
    def _profiled(self, trial: Trial, name: str) -> Iterator[None]:
        if not self.plan.profile:
            yield
            return
        pids = {"worker": trial.worker.pid, "client": trial.submitting.pid}
        raws = {pid: self.folder / f"{name}-{part}.raw" for part, pid in pids.items()}
        with ExitStack() as sampling:
            for pid, raw in raws.items():
                sampling.enter_context(sampled(pid, raw))
            yield
        for raw in raws.values():
            write_shares(raw)
