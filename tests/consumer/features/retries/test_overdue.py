"""The sweep of retries that nobody woke up: sent once more, run here, ended, or left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from consumer.features.retries import overdue
from consumer.features.retries.headers import WakeUp
from consumer.features.retries.overdue import (
    ASKED_LIMIT,
    FIRST_PAUSE_S,
    GONE_AFTER_S,
    PAGE,
    PAGES,
    OverduePassage,
    OverdueRetries,
)
from consumer.handlers.backoff import Tiers
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.journal import JournalUnavailable, OverdueRetry, Row
from consumer.journal.pacing import EVER_MS, MARGIN_S, pause_after_look_s
from consumer.journal.records import NEVER_RETRIED
from consumer.journal.sweeps.retrying import DueCursor
from consumer.loop.scheduler import Scheduler
from feedback.errors import KafkaUnavailable
from feedback.settings.settings import load
from feedback.statuses import StatusWrite
from tests.consumer.cores import core_of
from tests.consumer.samples import delivery, payments, row


class Journaled:
    """A journal with rows that are overdue."""

    def __init__(self) -> None:
        self.found: list[OverdueRetry] = []
        self.pages = 0
        self.within_ms: list[int] = []
        self.ended: list[str] = []

    def overdue_retries(
        self,
        topics: Iterable[str],
        limit: int,
        age_ms: int,
        *,
        cursor: DueCursor,
        within_ms: int,
    ) -> list[OverdueRetry]:
        """Return what was planted."""
        self.pages += 1
        self.within_ms.append(within_ms)
        found = {DueCursor.behind(one.row): one for one in self.found if one.row.topic in topics}
        return [found[key] for key in sorted(found) if key > cursor][:limit]

    def end_retries(self, rows: Sequence[Row]) -> list[Row]:
        """End them."""
        names = {one.request_id for one in rows}
        self.ended += sorted(names)
        self.found = [one for one in self.found if one.row.request_id not in names]
        return list(rows)


class Payloads:
    """Payloads that are there, gone, or out of reach."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.away: set[str] = set()
        self.asked: list[str] = []

    def of(self, one: Row) -> Delivery | None:
        """Return the delivery of a row."""
        self.asked.append(one.request_id)
        if one.topic in self.away:
            raise KafkaUnavailable("away")
        return None if one.request_id in self.gone else delivery(one.request_id)


class Scene:
    """A sweep, and what it has done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **declared: Any) -> None:
        self.journal, self.payloads = Journaled(), Payloads()
        self.buffer = Buffer(1)
        self.sent: list[str] = []
        self.told: list[str] = []
        self.now_s = 1000.0
        monkeypatch.setattr(overdue, "monotonic_s", lambda: self.now_s)
        handler = payments(retry_on=(OSError,), **declared)
        real = self.payloads.of

        def of(one: Row) -> Delivery | None:
            found = real(one)
            return found and found._replace(handler=handler)

        monkeypatch.setattr(self.payloads, "of", of)
        core = core_of(
            load(),
            handlers=(handler, replace(handler, topic="refunds")),
            sweeps=self.journal,
            payloads=self.payloads,
            scheduler=Scheduler(Buffer(1), self.buffer),
            wake=lambda: None,
            status_writer=self,
        )
        self.sweeping = OverdueRetries(core, send=self._send)

    def tell(self, writes: Iterable[StatusWrite]) -> None:
        """Hear what clients are told."""
        self.told += [one.request_id for one in writes]

    def plant(
        self, *names: str, is_too_late: bool = False, due_at: int = 1, topic: str = "payments"
    ) -> None:
        """Let requests be overdue."""
        facts = {"generation": 1, "due_at": due_at, "owner": "w", "topic": topic}
        for name in names:
            found = row(name, "RETRYING", **facts)
            self.journal.found.append(OverdueRetry(found, NEVER_RETRIED, is_too_late, 5_000))

    def sweep(self, after_s: float = 0.0) -> None:
        """Sweep, after a while."""
        self.now_s += after_s
        self.sweeping.sweep()

    def _send(self, wakeups: Iterable[WakeUp]) -> None:
        self.sent += [one.delivery.request_id for one in wakeups]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return a sweep of a handler with retries through topics."""
    return Scene(monkeypatch, retries=Tiers.parse("1s"))


def test_it_is_sent_once_more_and_then_goes_on_here(scene: Scene) -> None:
    scene.plant("a")
    scene.sweep()
    scene.sweep(FIRST_PAUSE_S / 2)
    assert (scene.sent, len(scene.buffer)) == (["a"], 0)
    scene.sweep(FIRST_PAUSE_S)
    assert (scene.sent, len(scene.buffer)) == (["a"], 1)


def test_what_is_too_late_is_ended_and_told_without_its_payload(scene: Scene) -> None:
    scene.plant("a", is_too_late=True)
    scene.sweep()
    assert (scene.journal.ended, scene.told, scene.payloads.asked) == (["a"], ["a"], [])


def test_a_payload_that_is_gone_may_still_come_with_its_wakeup(scene: Scene) -> None:
    scene.plant("a")
    scene.payloads.gone.add("a")
    scene.sweep()
    scene.sweep(GONE_AFTER_S - 1)
    assert scene.journal.ended == []
    scene.sweep(1.0)
    assert (scene.journal.ended, scene.told) == (["a"], ["a"])


def test_one_that_went_on_meanwhile_has_its_time_anew(scene: Scene) -> None:
    scene.plant("a")
    scene.payloads.gone.add("a")
    scene.sweep()
    away, scene.journal.found = scene.journal.found, []
    scene.sweep(GONE_AFTER_S)
    scene.journal.found = away
    scene.sweep()
    assert scene.journal.ended == []


def test_without_retries_through_topics_nothing_else_has_the_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    scene.plant("a")
    scene.payloads.gone.add("a")
    scene.sweep()
    assert scene.journal.ended == ["a"]


def test_a_topic_out_of_reach_is_asked_once_a_round_and_loses_nothing(scene: Scene) -> None:
    scene.plant("a", "b", "c")
    scene.payloads.away.add("payments")
    scene.sweep()
    assert (scene.payloads.asked, scene.journal.ended, scene.sent) == (["a"], [], [])
    scene.payloads.away.clear()
    scene.sweep()
    assert scene.sent == ["a", "b", "c"]


def names(count: int) -> list[str]:
    """Return ids in their order."""
    return [f"r{number:05}" for number in range(count)]


def test_more_than_a_page_whose_payloads_are_gone_keep_none_behind_them_waiting(
    scene: Scene,
) -> None:
    gone = names(2 * ASKED_LIMIT + 50)
    scene.plant(*gone)
    scene.payloads.gone.update(gone)
    scene.plant("behind", due_at=2)
    for _ in range(3):
        scene.sweep()
    assert scene.sent == ["behind"]
    assert sorted(scene.payloads.asked) == ["behind", *gone], "each of them once in a passage"
    assert scene.journal.ended == []


def test_payloads_stay_gone_over_passages_of_several_sweeps_until_their_time_is_over(
    scene: Scene,
) -> None:
    gone = names(ASKED_LIMIT + 50)
    scene.plant(*gone)
    scene.payloads.gone.update(gone)
    for _ in range(6):
        scene.sweep(GONE_AFTER_S / 7)
    assert scene.journal.ended == []
    for _ in range(4):
        scene.sweep(GONE_AFTER_S / 7)
    assert scene.journal.ended == gone


def test_what_was_woken_up_a_moment_ago_keeps_none_behind_it_waiting(scene: Scene) -> None:
    scene.plant(*names(ASKED_LIMIT))
    scene.sweep()
    assert scene.sent == names(ASKED_LIMIT)
    scene.plant("behind", due_at=2)
    scene.sweep()
    scene.sweep()
    assert scene.sent[ASKED_LIMIT:] == ["behind"]


def test_of_a_topic_out_of_reach_however_much_of_it_waits_one_is_asked_a_sweep(
    scene: Scene,
) -> None:
    scene.plant(*names(3 * PAGE))
    scene.payloads.away.add("payments")
    scene.plant("behind", due_at=2, topic="refunds")
    scene.sweep()
    assert (scene.payloads.asked, scene.sent) == (["r00000", "behind"], ["behind"])


def test_a_sweep_looks_at_so_much_and_the_next_one_goes_on_from_there(scene: Scene) -> None:
    count = PAGE * PAGES + 1
    scene.plant(*names(count))
    for _ in range(count // ASKED_LIMIT + 1):
        scene.sweep()
    assert scene.sent == names(count)
    scene.journal.pages = 0
    scene.sweep()
    assert scene.journal.pages == PAGES
    scene.sweep()
    assert scene.journal.pages == PAGES + 1


def test_a_slow_passage_is_followed_by_such_as_go_back_to_the_oldest_that_was_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = scene.journal.overdue_retries

    def slow(*asked: Any, **named: Any) -> list[OverdueRetry]:
        scene.now_s += 2.0
        return real(*asked, **named)

    monkeypatch.setattr(scene.journal, "overdue_retries", slow)
    scene.plant(*(f"r{number:03}" for number in range(PAGE)))
    for _ in range(3):
        scene.sweep(1.0)
    since_s = 1001.0 - 5.0 - MARGIN_S
    assert scene.journal.within_ms[:2] == [EVER_MS, EVER_MS]
    assert scene.journal.within_ms[2:] == [1000 * (at_s - since_s) for at_s in (1007.0, 1009.0)]


def test_a_page_that_the_database_gives_up_on_is_not_tried_again_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, within_ms: int, **__: Any) -> list[OverdueRetry]:
        scene.journal.within_ms.append(within_ms)
        scene.now_s += 10.0
        raise JournalUnavailable("statement timeout")

    monkeypatch.setattr(scene.journal, "overdue_retries", failing)
    for _ in range(2):
        with pytest.raises(JournalUnavailable):
            scene.sweep()
    scene.now_s += pause_after_look_s(10.0)
    with pytest.raises(JournalUnavailable):
        scene.sweep()
    assert [one == EVER_MS for one in scene.journal.within_ms] == [True, False, True]


def test_a_topic_that_is_read_again_is_looked_at_from_its_oldest_on(
    scene: Scene,
) -> None:
    passage = OverduePassage(PAGE)
    for at_s, topics in ((100.0, {"a"}), (103.0, {"a"}), (106.0, {"a", "b"})):
        passage.go_on(topics, at_s)
        scene.journal.within_ms.append(passage.within_ms(at_s))
        passage.read([], took_s=2.0)
    assert [one == EVER_MS for one in scene.journal.within_ms] == [True, False, True]
