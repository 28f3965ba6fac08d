"""The end of a worker that gets no child any more, and whose journal is away."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.journal import JournalUnavailable
from consumer.ops import drain
from consumer.ops.drain import Drain
from consumer.ops.signals import StopSignals
from feedback.clock import monotonic_s

AWAY_S = 0.3


class _LeftWorker:
    """Holds one run that waits for a slot; its journal is away at first."""

    idle = False
    held = 1
    waits_for_slots = True

    def __init__(self) -> None:
        self.scheduler = _Nothing()
        self._back_s = monotonic_s() + AWAY_S
        self.is_written = False

    def take_nothing_more(self) -> None:
        pass

    def give_up(self, received: Any, *, code: str) -> None:
        pass

    def settle(self) -> None:
        if monotonic_s() < self._back_s:
            raise JournalUnavailable("away")

    def cut(self) -> int:
        self.settle()
        self.is_written = True
        return 1


class _Nothing(list[Any]):
    def take_all(self) -> list[Any]:
        return []


class _Childless:
    is_out_of_children = True


def test_what_is_left_is_written_when_the_journal_is_back_within_the_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "SETTLE_S", 0.0)
    monkeypatch.setattr(drain, "SETTLE_AGAIN_S", 0.01)
    worker: Any = _LeftWorker()
    childless: Any = _Childless()
    ending = Drain(
        worker=worker,
        pool=childless,
        readers=[],
        stop=StopSignals(on_stop=lambda: None),
        drain_timeout_s=30.0,
    )
    assert ending.run() == 1
    assert worker.is_written
