"""Whatever happens to a worker, its requests in flight keep the invariants of their class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from consumer.handlers.delivery import Delivery
from consumer.journal import Run
from consumer.loop.in_flight import InFlight
from consumer.loop.worker import Worker
from tests.simulation.running import first_broken, simulated
from tests.simulation.telling import told

SEED, SCHEDULES = 50_001, 200

_settle = InFlight._settle


def broken(one: InFlight) -> list[str]:
    """Return the invariants that do not hold between two turns."""
    running, claiming = one._running.keys(), {each.request_id for each in one._claiming}
    settled, follows, acts = one._settlements.keys(), one._continuing.keys(), one._effects.keys()
    known = one._entered | one._asking | one._lapsed
    holds = {
        "a run is among the running": settled | acts | known <= running,
        "a run has one next step": not (settled & follows or settled & acts or follows & acts),
        "a tried claim is written again": one._tried <= claiming,
        "a run that no child took is asked for again": {name for name, _ in one._untaken}
        <= one._tried,
        "a run that no child took does not run": one._untaken.keys().isdisjoint(running),
    }
    return [name for name, is_kept in holds.items() if not is_kept]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return what is found broken after each turn of any worker, and how many turns there were."""
    counted: Counter[str] = Counter()
    turn = Worker.turn

    def watched(self: Worker) -> None:
        turn(self)
        counted.update(["turns", *broken(self._in_flight)])

    monkeypatch.setattr(Worker, "turn", watched)
    return counted


def test_the_requests_in_flight_keep_their_invariants(found: Counter[str]) -> None:
    with simulated():
        outcome, _ = first_broken(SEED, SCHEDULES)
    assert outcome is None, told(outcome)
    assert found["turns"] > SCHEDULES
    assert [*found] == ["turns"]


def _keeps_what_it_knew(self: InFlight, run: Run) -> bool:
    self._continuing.pop(run, None)
    return self._running.pop(run, None) is not None


def _stays_tried(self: InFlight, batch: Iterable[Delivery]) -> None:
    pass


def _ends_twice(self: InFlight, one: Any) -> None:
    _settle(self, one)
    if one.follows is not None:
        self._settlements[one.run] = one


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("forget", _keeps_what_it_knew),
        ("answered", _stays_tried),
        ("_settle", _ends_twice),
    ],
)
def test_a_planted_fault_breaks_one(
    found: Counter[str], monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(InFlight, name, fault)
    with simulated():
        for seed in range(SEED, SEED + SCHEDULES):
            first_broken(seed, 1)
            if len(found) > 1:
                return
    pytest.fail("nothing was found")
