"""Measures the road: both Kafka clients in turn, each started anew, at each rate of the plan."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from feedback.clock import monotonic_s
from tests.bench.measure.cost import Reading, cost
from tests.bench.measure.figures import percentile
from tests.bench.plan import Case, Plan, System
from tests.bench.road.marks import FOLDER_VARIABLE
from tests.bench.road.table import Marks, read
from tests.bench.submit.process import Answer, ask
from tests.bench.systems.onceward import onceward
from tests.bench.systems.trial import Trial
from tests.stack import Servers

CLIENTS = ("kafka-python", "confluent")
HANDLERS = "tests.bench.road.handlers"
CLIENT = "tests.bench.road.client"
ANSWER_LIMIT_S = 180.0


class Driven(NamedTuple):
    """All requests of one case, and its cost.

    Attributes:
        cpu_ms: of one request, by part.
    """

    name: str
    roads: list[Marks]
    p50_ms: float
    p99_ms: float
    cpu_ms: dict[str, float]
    other_cpu_percent: float

    @property
    def line(self) -> str:
        """The case in one line."""
        parts = ", ".join(f"{name} {cpu:.2f}" for name, cpu in self.cpu_ms.items())
        return (
            f"{self.name}: p50 {self.p50_ms:.1f}, p99 {self.p99_ms:.1f} ms; CPU ms a request "
            f"{sum(self.cpu_ms.values()):.2f} ({parts}); others {self.other_cpu_percent:.0f} %"
        )


def drive(
    plan: Plan, servers: Servers, folder: Path, say: Callable[[str], None]
) -> Iterator[Driven]:
    """Yield each case of each round, on both clients and all journals of the plan.

    Raises:
        BenchError: a worker or a client ended.
    """
    # Each journal once, whichever engine the plan names with it.
    systems = {one.journal: one for one in plan.systems if one.journal is not None}
    for number in range(plan.rounds):
        for system in systems.values():
            for client in CLIENTS if number % 2 == 0 else CLIENTS[::-1]:
                say(f"round {number + 1} of {plan.rounds}: {system.journal}, {client}")
                yield from _trial(plan, servers, folder, system, client)


def _trial(
    plan: Plan, servers: Servers, folder: Path, system: System, client: str
) -> Iterator[Driven]:
    with tempfile.TemporaryDirectory(prefix="road-", dir=folder) as name:
        changes = {"ONCEWARD_KAFKA__CLIENT": client, FOLDER_VARIABLE: name}
        opened = onceward(
            servers,
            journal=system.journal or "",
            folder=Path(name),
            handlers=HANDLERS,
            client=CLIENT,
            changes=changes,
        )
        with opened as trial:
            _ask(plan, trial, Case(), plan.warm_up_of(system))
            for case in plan.cases:
                if case.rate_per_s is not None:
                    title = f"onceward-{system.journal}, {client}, {case.name}"
                    yield _case(plan, trial, case, title, Path(name))


def _case(plan: Plan, trial: Trial, case: Case, name: str, folder: Path) -> Driven:
    began_s, before = monotonic_s(), Reading.take(trial.parts, {})
    answer = _ask(plan, trial, case, 0)
    spent, ended_s = cost(before, Reading.take(trial.parts, {})), monotonic_s()
    roads: list[Marks] = [
        one for one in read(folder).values() if began_s <= one.get("sending", 0.0) < ended_s
    ]
    return Driven(
        name,
        roads,
        percentile(answer.took_ms, 50),
        percentile(answer.took_ms, 99),
        spent.per_1000(answer.requests),
        spent.other_cpu_percent,
    )


def _ask(plan: Plan, trial: Trial, case: Case, count: int) -> Answer:
    return ask(
        trial.submitting,
        case,
        count=count,
        seconds=plan.rate_seconds,
        timeout_s=ANSWER_LIMIT_S,
        watched_pid=trial.worker.pid,
    )
