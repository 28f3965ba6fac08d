"""Which topics are paused, and what of them is let through all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from consumer.features.pausing import pausing as module
from consumer.features.pausing.circuit_breaker import CircuitBreaker, FailureKind
from consumer.features.pausing.pausing import PauseListener, Pausing
from consumer.handlers.delivery import Delivery
from consumer.intake.gate import Gates
from consumer.journal.pauses import PauseRow
from consumer.loop.settlement import Settlement
from consumer.pool.outcome import RaisedError
from feedback.records.envelope import Record
from feedback.status import State
from tests.consumer.samples import delivery, record, row, settled

DOWN = FailureKind("HANDLER_ERROR", "ConnectionError")
STOPPED = PauseRow("payments", "a reason", 5, "somebody")


def down(one: Delivery) -> Settlement:
    """Return how a run ended that did not reach the counterparty; a resend may help."""
    failed = settled(one, "FAILED", code=DOWN.code, resend=True)
    return replace(failed, raised=RaisedError(DOWN.error_class, ""))


class Told(PauseListener):
    """Hears alerts."""

    def __init__(self) -> None:
        self.alerts: list[tuple[str, str, str]] = []

    def paused(self, topic: str, *, reason: str, by: str) -> None:
        self.alerts.append((topic, reason, by))


class Scene:
    """What knows the pauses, and a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.wakes = 0
        self.told = Told()
        self.waiting: list[Delivery] = []
        self.in_hand: list[Delivery] = []
        monkeypatch.setattr(module, "monotonic_s", lambda: self.now_s)
        self.pausing = Pausing(
            guard=CircuitBreaker(share=0.5, window=4, probes=1),
            topics=("payments", "refunds"),
            stopping=("payments",),
            me="me",
            listeners=[self.told],
            wake=self._wake,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def fail(self, times: int) -> None:
        for at in range(times):
            self.pausing.ended(down(delivery(f"f{at}")))

    def take(self, topic: str) -> Delivery | None:
        return self.waiting.pop(0) if self.waiting else None

    def probes(self, now_s: float) -> list[str]:
        """Return what is let through now; it is in hand from then on."""
        self.now_s = now_s
        found = self.pausing.probes(now_s, 8, lambda: self.in_hand, self.take)
        self.in_hand += found
        return [one.request_id for one in found]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return a scene without a pause."""
    return Scene(monkeypatch)


def test_nothing_is_paused_at_first(scene: Scene) -> None:
    assert "payments" not in scene.pausing.closed
    assert (scene.pausing.paused, scene.pausing.unread) == ([], frozenset())
    records = [record(offset=1), record(offset=2)]
    assert Gates([scene.pausing]).sift(records) == (records, {})


def test_an_outage_pauses_the_topic_and_says_so_once(scene: Scene) -> None:
    scene.fail(3)
    scene.fail(3)
    assert "payments" in scene.pausing.closed
    assert "refunds" not in scene.pausing.closed
    (found,) = scene.pausing.paused
    assert (found.topic, found.reason, found.by) == ("payments", str(DOWN), "guard")
    assert scene.told.alerts == [("payments", str(DOWN), "guard")]


def test_what_waits_here_is_let_through_one_by_one_and_a_success_ends_the_outage(
    scene: Scene,
) -> None:
    scene.fail(3)
    scene.waiting = [delivery(name) for name in "abc"]
    assert scene.probes(0.9) == []
    assert scene.probes(1.0) == ["a"]
    assert scene.probes(1.5) == []
    scene.pausing.ended(down(scene.in_hand.pop()))
    assert scene.probes(2.9) == []
    assert scene.probes(3.0) == ["b"]
    scene.pausing.ended(settled(scene.in_hand.pop()))
    assert "payments" not in scene.pausing.closed
    assert scene.pausing.unread == frozenset()
    assert [one.request_id for one in scene.waiting] == ["c"]


def test_where_nothing_waits_here_one_record_is_read_and_no_more(scene: Scene) -> None:
    scene.fail(3)
    assert scene.pausing.unread == {"payments"}
    assert scene.probes(1.0) == []
    assert scene.pausing.unread == frozenset()
    polled = [record(partition=at % 2, offset=10 + at) for at in range(4)]
    polled.append(record(topic="refunds", partition=0, offset=7))
    kept, left = Gates([scene.pausing]).sift(polled)
    assert kept == [polled[0], polled[4]]
    assert left == {("payments", 0): 12, ("payments", 1): 11}
    assert scene.pausing.unread == {"payments"}


def test_what_goes_back_takes_all_behind_it_along_whatever_happens_meanwhile(
    scene: Scene,
) -> None:
    scene.pausing.learn([STOPPED])
    polled = [record(offset=10), record(offset=11), record(offset=12)]

    def resumed_in_between() -> Iterator[Record]:
        yield polled[0]
        scene.pausing.learn([])
        yield from polled[1:]

    assert Gates([scene.pausing]).sift(resumed_in_between()) == ([], {("payments", 3): 10})


def test_a_probe_that_got_lost_makes_room_for_the_next(scene: Scene) -> None:
    scene.fail(3)
    scene.waiting = [delivery("a"), delivery("b")]
    assert scene.probes(1.0) == ["a"]
    scene.in_hand.clear()  # its claim was refused: it has run before
    assert scene.probes(1.1) == []
    assert scene.probes(1.3) == ["b"]


def test_the_loop_knows_when_the_next_one_is_due(scene: Scene) -> None:
    assert scene.pausing.next_s(0.0) is None
    scene.fail(3)
    assert scene.pausing.next_s(0.4) == 1.0
    assert scene.pausing.next_s(1.5) is None  # it is due: whoever reads one wakes the loop


def test_what_the_group_has_paused_is_not_probed_and_goes_on_when_the_group_says_so(
    scene: Scene,
) -> None:
    scene.fail(3)
    scene.waiting = [delivery("a")]
    scene.pausing.learn([STOPPED, PauseRow("unknown", "r", 1, "b")])
    assert scene.probes(60.0) == []
    assert scene.pausing.unread == {"payments"}
    assert [tuple(one) for one in scene.pausing.paused] == [tuple(STOPPED)]
    scene.pausing.learn([])
    assert scene.wakes == 2
    assert "payments" in scene.pausing.closed  # the outage is not over
    assert scene.probes(60.0) == ["a"]


def test_a_dead_letter_stops_its_topic_at_once_and_the_journal_learns_of_it(scene: Scene) -> None:
    scene.pausing.failed("refunds", "x", "CARD_EXPIRED")
    assert "refunds" not in scene.pausing.closed
    scene.pausing.failed("payments", "a", "CARD_EXPIRED")
    scene.pausing.failed("payments", "b", "CARD_EXPIRED")
    assert "payments" in scene.pausing.closed
    assert scene.pausing.news.is_set()
    scene.pausing.learn([])  # read before it was written
    assert "payments" in scene.pausing.closed
    (stop,) = scene.pausing.unwritten()
    assert (stop.topic, stop.by) == ("payments", "me")
    assert "CARD_EXPIRED of a" in stop.reason
    assert scene.told.alerts == [("payments", stop.reason, "me")]
    scene.pausing.written(stop)
    assert scene.pausing.unwritten() == []
    assert "payments" in scene.pausing.closed
    scene.pausing.learn([])
    assert "payments" not in scene.pausing.closed


@pytest.mark.parametrize(
    ("state", "resend", "is_stopped"),
    [
        (State.FAILED, False, True),
        (State.FAILED, True, False),
        (State.IN_DOUBT, False, False),
        (State.SUCCEEDED, False, False),
    ],
)
def test_a_row_that_becomes_a_dead_letter_stops_its_topic_too(
    scene: Scene, state: State, resend: bool, is_stopped: bool
) -> None:
    scene.pausing.answered(row("a", state, resend=resend), record())
    assert ("payments" in scene.pausing.closed) is is_stopped
