"""The thread between a worker's pauses and those of its group."""

from __future__ import annotations

import threading

import pytest

from consumer.features.pausing import pause_sync as module
from consumer.features.pausing.circuit_breaker import CircuitBreaker
from consumer.features.pausing.pause_sync import PauseSync
from consumer.features.pausing.pausing import Pausing
from consumer.journal import JournalUnavailable
from consumer.journal.pauses import PauseRow
from tests.eventually import HANG_S, eventually


class Rows:
    """The pauses of a group, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, PauseRow] = {}
        self.is_away = False
        self.is_closed = threading.Event()
        self.asked = 0

    def pause(self, topic: str, *, reason: str, by: str) -> bool:
        self._answer()
        is_new = topic not in self.rows
        self.rows.setdefault(topic, PauseRow(topic, reason, 1, by))
        return is_new

    def paused(self) -> list[PauseRow]:
        self._answer()
        return list(self.rows.values())

    def close(self) -> None:
        self.is_closed.set()

    def _answer(self) -> None:
        self.asked += 1
        if self.is_away:
            raise JournalUnavailable("away")


@pytest.fixture
def rows() -> Rows:
    """Return a group without pauses."""
    return Rows()


@pytest.fixture
def pausing() -> Pausing:
    """Return what a worker knows, of one topic that stops at a dead letter."""
    return Pausing(
        guard=CircuitBreaker(share=0, window=1, probes=1),
        topics=("payments",),
        stopping=("payments",),
        me="me",
    )


def test_what_is_paused_is_known_before_anything_is_read(rows: Rows, pausing: Pausing) -> None:
    rows.pause("payments", reason="r", by="somebody")
    watching = PauseSync(pausing, rows)
    watching.start()
    assert "payments" in pausing.closed
    watching.stop(HANG_S)
    assert rows.is_closed.is_set()


def test_a_worker_that_cannot_know_does_not_start(rows: Rows, pausing: Pausing) -> None:
    rows.is_away = True
    with pytest.raises(JournalUnavailable):
        PauseSync(pausing, rows).start()


def test_a_stop_is_written_at_once_and_what_others_write_is_learned(
    rows: Rows, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", (0.01, 60.0))
    watching = PauseSync(pausing, rows)
    watching.start()
    try:
        pausing.failed("payments", "a", "CARD_EXPIRED")
        eventually(lambda: "payments" in rows.rows, timeout_s=30)
        del rows.rows["payments"]  # a person resumes it
        pausing.news.set()
        eventually(lambda: "payments" not in pausing.closed, timeout_s=30)
        assert (pausing.paused, pausing.unwritten()) == ([], [])
    finally:
        watching.stop(HANG_S)


def test_a_stop_is_written_when_the_journal_is_back_and_holds_until_then(
    rows: Rows, pausing: Pausing
) -> None:
    watching = PauseSync(pausing, rows)
    rows.is_away = True
    pausing.failed("payments", "a", "CARD_EXPIRED")
    for _ in range(2):
        with pytest.raises(JournalUnavailable):
            watching.look()
        assert "payments" in pausing.closed
    rows.is_away = False
    watching.look()
    assert set(rows.rows) == {"payments"}
    assert pausing.unwritten() == []
    assert "payments" in pausing.closed


def test_the_thread_outlives_an_absent_journal(
    rows: Rows, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", (0.01, 0.02))
    watching = PauseSync(pausing, rows)
    watching.start()
    try:
        rows.is_away = True
        asked = rows.asked
        eventually(lambda: rows.asked > asked + 2, timeout_s=30)
        rows.rows["payments"] = PauseRow("payments", "r", 1, "somebody")
        rows.is_away = False
        eventually(lambda: "payments" in pausing.closed, timeout_s=30)
        assert [(one.topic, one.by) for one in pausing.paused] == [("payments", "somebody")]
    finally:
        watching.stop(HANG_S)
