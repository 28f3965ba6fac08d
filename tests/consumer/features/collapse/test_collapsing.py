"""What a run stands in for: what waited when it began, and only with its success."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from consumer.features.collapse.collapsing import Collapsing
from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.journal import Row
from consumer.loop.continuation import NextStep, continuation
from consumer.loop.in_flight import InFlight
from consumer.loop.mapping import job
from consumer.loop.order.key_queues import KeyQueues
from consumer.loop.settlement import Skipping
from consumer.pool import ChildDied, Finished, Outcome
from feedback.status import State
from tests.consumer.features.collapse.samples import asked, collapsing
from tests.consumer.loop.order.samples import names
from tests.consumer.samples import payments, row

DONE = Outcome(State.SUCCEEDED, result="1")
COMMITTED = Outcome(State.SUCCEEDED, result="1", committed=True)
FAR_S = 1000.0


def always(topic: str) -> bool:
    return True


class Scene:
    """A worker's hands and key_queues, without a worker."""

    def __init__(self) -> None:
        self.held, self.key_queues = InFlight(), KeyQueues(1000)
        self.collapsing = Collapsing(self.key_queues)

    def read(self, *deliveries: Delivery) -> None:
        for one in deliveries:
            assert not self.key_queues.gather(one, 0.0)

    def begin(self, generation: int = 1) -> Delivery:
        """Let the head of the only queue that is free begin."""
        self.key_queues.note(self.in_hand())
        (head,) = self.key_queues.take(1, FAR_S, always)
        self.dispatch(head, generation)
        return head

    def dispatch(self, head: Delivery, generation: int = 1) -> None:
        self.collapsing.began(head, self.held.begin(head, claimed(head, generation)))

    def dies(self, head: Delivery, generation: int = 1) -> None:
        """Let its child die, and the journal allow another run with the same key."""
        run = (head.request_id, generation)
        self.held.hear(ChildDied(7, "killed", (job(head, claimed(head, generation)),), ()))
        for one in self.held.take_unwritten():
            self.collapsing.ended(one)
        assert self.skips() == []
        again = self.held.continuing[run]
        self.held.forget(run)
        self.held.follow(again, generation + 1)
        self.dispatch(head, generation + 1)

    def ends(self, head: Delivery, outcome: Outcome, generation: int = 1) -> list[str]:
        """Let it end, and return what is to be skipped."""
        self.hear(Finished(head.request_id, generation, outcome))
        return ids(self.skips())

    def hear(self, event: Finished) -> None:
        self.held.hear(event)
        for one in self.held.take_unwritten():
            self.collapsing.ended(one)

    def skips(self) -> list[Skipping]:
        return list(self.collapsing.skips(self.held.finishes, self.held.running.keys()))

    def written(self, skips: list[Skipping], rows: list[Row]) -> None:
        self.collapsing.skipped(skips, {one.request_id: one for one in rows})

    def in_hand(self) -> list[Delivery]:
        return [*self.held.in_hand(), *self.collapsing.holds()]

    @property
    def idle(self) -> bool:
        return self.held.idle and not self.collapsing.holds()


def claimed(one: Delivery, generation: int) -> Row:
    return row(one.request_id, "CLAIMED", generation=generation)


def ids(skips: list[Skipping]) -> list[str]:
    return [one.delivery.request_id for one in skips]


def test_with_its_success_what_waited_behind_it_ends_and_what_came_later_does_not() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"), asked("a3"))
    head = scene.begin()
    scene.read(asked("a4"))
    assert scene.skips() == [], "it runs"
    assert scene.ends(head, DONE) == ["a2", "a3"]
    skips = scene.skips()
    assert [(one.entry.request_id, one.entry.by, one.entry.by_generation) for one in skips] == [
        ("a2", "a1", 1),
        ("a3", "a1", 1),
    ]
    scene.written(skips, [row("a2", "SKIPPED"), row("a3", "EXPIRED")])
    scene.held.take_settlements()
    scene.held.forget(("a1", 1))
    assert names(scene.key_queues.waiting) == ["a4"]
    assert scene.skips() == []
    assert scene.begin().request_id == "a4"


def test_what_the_journal_did_not_skip_goes_on_in_its_lane() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"), asked("a3"))
    scene.ends(scene.begin(), DONE)
    scene.written(scene.skips(), [row("a3", "SKIPPED")])
    assert names(scene.key_queues.waiting) == ["a2"]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(State.FAILED, code="CARD_EXPIRED"),
        Outcome(State.FAILED, code="BUSY", resend=True),
        Outcome(State.IN_DOUBT),
        Outcome(State.SKIPPED, code="NOT_APPLICABLE"),
        Outcome(State.FAILED, stale=True),
    ],
)
def test_where_it_has_not_succeeded_nothing_ends_with_it_and_the_next_one_begins(
    outcome: Outcome,
) -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"), asked("a3"))
    assert scene.ends(scene.begin(), outcome) == []
    scene.held.take_settlements()
    scene.held.forget(("a1", 1))
    assert scene.ends(scene.begin(), DONE) == ["a3"]


def test_a_success_that_a_child_has_committed_keeps_its_key_until_the_others_have_ended() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"))
    head = scene.begin()
    assert scene.ends(head, COMMITTED) == ["a2"]
    assert (scene.held.running, scene.idle) == ({}, False)
    assert scene.in_hand() == [head]
    scene.key_queues.note(scene.in_hand())
    assert scene.key_queues.take(1, FAR_S, always) == [], "its key is not free yet"
    scene.written(scene.skips(), [row("a2", "SKIPPED")])
    assert (scene.idle, scene.key_queues.waiting) == (True, [])


def test_a_committed_success_lets_go_when_what_waited_was_given_up_meanwhile() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"))
    head = scene.begin()
    scene.key_queues.take_all()
    assert scene.ends(head, COMMITTED) == []
    assert scene.idle


def test_a_second_run_stands_in_for_what_waits_when_it_begins() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"))
    head = scene.begin()
    scene.held.forget(("a1", 1))
    scene.read(asked("a3"))
    scene.dispatch(head, generation=2)
    scene.read(asked("a4"))
    assert scene.ends(head, DONE, generation=2) == ["a2", "a3"]


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_run_that_may_repeat_an_effect_stands_in_for_what_waited_before_the_first(
    deaths: int,
) -> None:
    scene = Scene()
    keyed = collapsing(in_doubt=InDoubtPolicy.RETRY_SAME_KEY)
    scene.read(*(asked(name)._replace(handler=keyed) for name in ("a1", "a2", "a3")))
    head = scene.begin()
    for generation in range(1, deaths + 1):
        scene.read(asked(f"b{generation}"))
        scene.dies(head, generation)
    assert scene.ends(head, DONE, generation=deaths + 1) == ["a2", "a3"]


def test_a_run_that_may_repeat_one_of_another_worker_stands_in_for_nothing() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"))
    (head,) = scene.key_queues.take(1, FAR_S, always)
    scene.held.follow(continuation(head, 1, NextStep.SAME_KEY, because="WORKER_DIED"), 2)
    scene.dispatch(head, 2)
    assert scene.ends(head, DONE, generation=2) == []


def test_an_answer_of_the_counterparty_stands_in_for_nothing() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"))
    (head,) = scene.key_queues.take(1, FAR_S, always)
    scene.held.follow(continuation(head, 1, NextStep.ASK, because="WORKER_DIED"), 2)
    scene.dispatch(head, 2)
    assert scene.ends(head, DONE, generation=2) == []


def test_a_second_delivery_of_the_one_a_wake_up_and_a_second_payload_are_not_skipped() -> None:
    scene = Scene()
    scene.read(asked("a1"), asked("a2"), asked("a1", value=b"other"), asked("a2", value=b"other"))
    due = asked("a5", wakes=1)
    scene.key_queues.hold_back(due, now_s=0.0, for_s=0.0)
    scene.key_queues.hold_back(asked("a0"), now_s=0.0, for_s=0.0)
    head = scene.begin()
    assert head.request_id == "a0"
    assert scene.ends(head, DONE) == ["a1", "a2"]
    (first, second) = scene.skips()
    assert (first.delivery.record.value, second.delivery.record.value) == (b"{}", b"{}")
    assert due in scene.key_queues.waiting


def test_the_predicate_is_asked_but_for_a_run_after_one_in_doubt() -> None:
    one, granted = asked("a1"), claimed(asked("a1"), 2)
    assert job(one, granted).collapses
    assert not job(one._replace(handler=payments()), granted).collapses
    assert not job(one, granted, doubtful=True).collapses


def test_a_death_before_its_effect_ends_nothing() -> None:
    scene = Scene()
    marked = collapsing(effect=EffectKind.MARKED, in_doubt=InDoubtPolicy.PARK)
    scene.read(asked("a1")._replace(handler=marked), asked("a2")._replace(handler=marked))
    scene.begin()
    scene.held.forget(("a1", 1))
    assert (scene.skips(), scene.collapsing._covers) == ([], {})


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_request_runs_or_is_skipped_by_one_that_began_after_it_came(
    seed: int,
) -> None:
    """Rounds of four keys whose runs succeed and fail at random, in children or without."""
    dice = random.Random(seed)
    scene = Scene()
    coming = [asked(f"{number}", bytes([dice.randrange(4)])) for number in range(80)]
    came_at: dict[str, int] = {}
    began_at: dict[str, int] = {}
    skipped: dict[str, str] = {}
    ran: dict[bytes | None, list[int]] = defaultdict(list)
    step = 0
    while coming or scene.held.running or len(scene.key_queues) or scene.collapsing.holds():
        step += 1
        assert step < 10_000, "a queue was forgotten"
        for _ in range(dice.randrange(4)):
            if coming:
                one = coming.pop(0)
                came_at[one.request_id] = step
                scene.read(one)
        scene.key_queues.note(scene.in_hand())
        for head in scene.key_queues.take(dice.randrange(3), FAR_S + step, always):
            began_at[head.request_id] = step
            ran[head.record.key].append(head.record.offset)
            scene.dispatch(head)
        for run in list(scene.held.running):
            if dice.random() < 0.3:
                good = dice.choice([DONE, COMMITTED])
                bad = Outcome(State.FAILED, code="BUSY")
                scene.hear(Finished(*run, good if dice.random() < 0.6 else bad))
        skips = scene.skips()
        if dice.random() < 0.3:
            continue  # the journal is away
        for each in skips:
            assert each.delivery.request_id not in {*skipped, *began_at}
            skipped[each.delivery.request_id] = each.by[0]
        scene.written(skips, [row(name, "SKIPPED") for name in ids(skips)])
        for written in scene.held.take_settlements():
            scene.held.forget(written.run)
    assert came_at.keys() == began_at.keys() | skipped.keys()
    assert not began_at.keys() & skipped.keys()
    assert skipped, "nothing waited together"
    for name, by in skipped.items():
        assert came_at[name] <= began_at[by], f"{name} came after {by} had begun"
    assert all(offsets == sorted(offsets) for offsets in ran.values())
