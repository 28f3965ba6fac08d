"""What becomes of runs that end in doubt, or after one that did."""

from __future__ import annotations

import pytest

from consumer.features.retries.next_run import ended
from consumer.handlers.backoff import Fixed
from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.journal import EffectMark, Finish, OwnRun, TakeoverKind
from consumer.loop import mapping
from consumer.loop.continuation import NextStep, continuation
from consumer.loop.in_flight import InFlight
from consumer.loop.mapping import CLAIM_LOST
from consumer.pool import ChildDied, EffectAsked, Finished, Outcome
from consumer.pool.outcome import STALE
from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.pool.driving import job
from tests.consumer.samples import begin, delivery, payments

RUN = ("a", 2)
REJECTED = Outcome(State.FAILED, code="BALANCE_TOO_LOW", message="m")
FAILED = Outcome(State.FAILED, code="HANDLER_ERROR", message="m")
DOUBT = Outcome(State.IN_DOUBT, message="m")
DONE = Outcome(State.SUCCEEDED, result="1")
SOON = Fixed("1s", tries=1)


class Judge:
    """Lets failures run again as they were declared to."""

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        return ended(finish, delivery, now_ms=epoch_ms())


def end_of(kept: InFlight) -> Finish:
    """Return the end that is to be written."""
    (finish,) = kept.finishes
    return finish


def held(effect: EffectKind, policy: InDoubtPolicy, *, doubtful: bool) -> InFlight:
    """Return what is held: generation 2 of one request, after a doubtful run or not."""
    one = delivery("a")._replace(handler=payments(effect=effect, in_doubt=policy))
    kept = InFlight(judges=(Judge(),))
    begin(kept, one, generation=2)
    if doubtful:
        earlier = continuation(one, 1, NextStep.SAME_KEY, because="CHILD_DIED")
        kept.follow(earlier, 2)
    return kept


def asking() -> InFlight:
    """Return hands in which the counterparty is asked about generation 2."""
    kept = InFlight(judges=(Judge(),))
    one = delivery("a")._replace(handler=payments(in_doubt=InDoubtPolicy.QUERY, query=print))
    kept.follow(continuation(one, 1, NextStep.ASK, because="CHILD_DIED"), 2)
    return kept


@pytest.mark.parametrize(
    ("outcome", "entered", "goes_on"),
    [
        (REJECTED, False, True),  # perhaps because the run before it took the money
        (REJECTED, True, False),  # the counterparty itself has said so, by the same key
        (FAILED, False, True),
        (FAILED, True, True),
        (DOUBT, True, True),
        (DONE, True, False),
        (DONE, False, False),
    ],
)
def test_a_marked_run_after_a_doubtful_one_settles_it_only_by_its_own_effect(
    outcome: Outcome, entered: bool, goes_on: bool
) -> None:
    kept = held(EffectKind.MARKED, InDoubtPolicy.RETRY_SAME_KEY, doubtful=True)
    if entered:
        kept.effects_answered({RUN})
    kept.hear(Finished(*RUN, outcome))
    assert (RUN in kept.continuing) is goes_on
    assert (RUN in kept.settlements) is not goes_on
    if goes_on:
        assert kept.continuing[RUN].takeover.kind is TakeoverKind.SAME_KEY


UNBEGUN = Outcome(State.FAILED, code="JOURNAL_UNAVAILABLE", unbegun=True)


def test_a_run_that_had_no_connection_is_asked_for_again_as_the_same_claim() -> None:
    kept = held(EffectKind.TRANSACTIONAL, InDoubtPolicy.PARK, doubtful=False)
    begin(kept, kept.running[RUN]._replace(deadline_at=2**52), generation=2)
    kept.hear(Finished(*RUN, UNBEGUN))
    assert ([one.request_id for one in kept.claiming], kept.finishes) == (["a"], [])
    assert RUN not in kept.running


def test_a_run_that_had_no_connection_until_its_deadline_is_left_to_the_journal() -> None:
    kept = held(EffectKind.TRANSACTIONAL, InDoubtPolicy.PARK, doubtful=False)
    begin(kept, kept.running[RUN]._replace(deadline_at=1), generation=2)
    kept.hear(Finished(*RUN, UNBEGUN))
    assert kept.continuing[RUN].takeover.kind is TakeoverKind.EXCLUDED
    assert kept.finishes == []


@pytest.mark.parametrize("outcome", [REJECTED, FAILED, DONE])
def test_a_marked_run_after_none_ends_as_it_says(outcome: Outcome) -> None:
    kept = held(EffectKind.MARKED, InDoubtPolicy.RETRY_SAME_KEY, doubtful=False)
    kept.hear(Finished(*RUN, outcome))
    assert end_of(kept).state == outcome.state


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("exited with code 0", "its process exited with code 0"),
        ("killed by SIGKILL", "its process was killed by SIGKILL"),
    ],
)
def test_how_a_process_ended_is_told_as_a_sentence(reason: str, told: str) -> None:
    kept = held(EffectKind.EXTERNAL, InDoubtPolicy.PARK, doubtful=False)
    kept.hear(ChildDied(7, reason, (job("payments", request_id="a", generation=2),), ()))
    assert end_of(kept).message == told


def test_doubt_goes_by_the_policy() -> None:
    kinds = {}
    for policy in InDoubtPolicy:
        kept = held(EffectKind.EXTERNAL, policy, doubtful=False)
        kept.hear(Finished(*RUN, DOUBT))
        kinds[policy] = kept.continuing[RUN].takeover.kind if kept.continuing else None
    assert kinds == {
        InDoubtPolicy.PARK: None,
        InDoubtPolicy.RETRY_SAME_KEY: TakeoverKind.SAME_KEY,
        InDoubtPolicy.QUERY: TakeoverKind.ASK,
    }


def test_an_answer_of_the_counterparty_is_final_but_for_a_void() -> None:
    for outcome in (DONE, DOUBT):
        kept = asking()
        kept.hear(Finished(*RUN, outcome))
        assert end_of(kept).state == outcome.state
    kept = asking()
    kept.hear(Finished(*RUN, Outcome(State.IN_DOUBT, voided=True)))
    assert kept.continuing[RUN].takeover.kind is TakeoverKind.VOIDED


@pytest.mark.parametrize("code", ["HANDLER_ERROR", "BANK_BUSY"])
def test_a_declared_failure_after_a_doubtful_run_does_not_end_the_doubt(code: str) -> None:
    busy = Outcome(State.FAILED, code=code, message="m", resend=True)
    for doubtful in (True, False):
        kept = held(EffectKind.EXTERNAL, InDoubtPolicy.RETRY_SAME_KEY, doubtful=doubtful)
        handler = payments(
            in_doubt=InDoubtPolicy.RETRY_SAME_KEY, retry_on=("BANK_BUSY",), retries=SOON
        )
        one = kept.running[RUN]._replace(handler=handler, deadline_at=2**53)
        begin(kept, one, generation=2)
        kept.hear(Finished(*RUN, busy))
        if doubtful:
            assert kept.continuing[RUN].takeover.kind is TakeoverKind.SAME_KEY
        else:
            finish = end_of(kept)
            assert (finish.state, finish.delay_ms) == ("RETRYING", 1000)


@pytest.mark.parametrize("effect", [EffectKind.MARKED, EffectKind.TRANSACTIONAL])
def test_a_run_that_the_journal_did_not_let_act_asks_for_another_and_tells_nobody_yet(
    effect: EffectKind,
) -> None:
    kept = held(effect, InDoubtPolicy.PARK, doubtful=False)
    kept.hear(Finished(*RUN, STALE))
    wish = kept.continuing[RUN].takeover
    assert (wish.kind, wish.because) == (TakeoverKind.EXCLUDED, CLAIM_LOST)
    assert (kept.finishes, kept.take_unwritten()) == ([], [])


@pytest.mark.parametrize("doubtful", [False, True])
def test_what_no_child_took_is_known_as_never_begun_until_it_is_granted_again(
    doubtful: bool,
) -> None:
    kept = held(EffectKind.EXTERNAL, InDoubtPolicy.RETRY_SAME_KEY, doubtful=doubtful)
    one = kept.running[RUN]
    kept.hear(
        ChildDied(7, "killed by SIGKILL", (), (job("payments", request_id="a", generation=2),))
    )
    # The effect of the run before it may have happened.
    assert kept.unbegun == (set() if doubtful else {RUN})
    assert (kept.claiming, kept.tried) == ([one], {"a"})
    kept.answered([delivery("b")])
    assert kept.unbegun == (set() if doubtful else {RUN})
    kept.answered([one])
    assert (kept.unbegun, kept.tried) == (set(), set())


@pytest.mark.parametrize("doubtful", [False, True])
def test_what_no_child_took_is_granted_again_as_the_run_that_it_was_whatever_record_asks(
    doubtful: bool,
) -> None:
    kept = held(EffectKind.EXTERNAL, InDoubtPolicy.RETRY_SAME_KEY, doubtful=doubtful)
    one = kept.running[RUN]._replace(voids=1)
    begin(kept, one, generation=2)
    kept.hear(ChildDied(7, "killed", (), (job("payments", request_id="a", generation=2),)))
    lost = OwnRun(mapping.claim(one), 2, entered=doubtful, finish=None, is_begun=False)
    assert list(kept.granted_again([delivery("b")])) == []
    assert list(kept.granted_again([delivery("a", 2)])) == [lost]
    kept.answered([one])
    assert list(kept.granted_again([one])) == []


def test_a_first_run_that_no_child_took_needs_no_row_of_its_own() -> None:
    kept = held(EffectKind.EXTERNAL, InDoubtPolicy.PARK, doubtful=False)
    first, one = ("a", 1), kept.running[RUN]
    kept.forget(RUN)
    begin(kept, one)
    kept.hear(ChildDied(7, "killed", (), (job("payments", request_id="a", generation=1),)))
    assert (kept.unbegun, [*kept.granted_again(kept.claiming)]) == ({first}, [])


def test_a_lost_run_that_no_child_took_is_no_longer_written_again_as_one_that_began() -> None:
    kept = held(EffectKind.MARKED, InDoubtPolicy.PARK, doubtful=False)
    kept.lose(kept.own_run(RUN))
    kept.lose(OwnRun(mapping.claim(delivery("b")), 1, False, None))
    kept.hear(ChildDied(7, "killed", (), (job("payments", request_id="a", generation=2),)))
    assert [one.request_id for one in kept.lost] == ["b"]


@pytest.mark.parametrize(
    ("policy", "waits"),
    # Where a person decides, its end is to be written first.
    [(InDoubtPolicy.RETRY_SAME_KEY, True), (InDoubtPolicy.PARK, False)],
)
def test_runs_that_go_on_wait_for_slots_and_nothing_else_does(
    policy: InDoubtPolicy, waits: bool
) -> None:
    assert not held(EffectKind.EXTERNAL, policy, doubtful=False).waits_for_slots
    kept = held(EffectKind.EXTERNAL, policy, doubtful=False)
    kept.hear(ChildDied(7, "killed", (job("payments", request_id="a", generation=2),), ()))
    assert kept.waits_for_slots is waits and not kept.idle


@pytest.mark.parametrize("lapses", [True, False])
def test_a_claim_that_no_child_took_enters_its_effect_only_in_time_behind_a_lapse(
    lapses: bool,
) -> None:
    kept = held(EffectKind.MARKED, InDoubtPolicy.PARK, doubtful=False)
    waiting = job("payments", request_id="a", generation=2)
    kept.hear(ChildDied(7, "killed", (), (waiting,)))
    (again,) = kept.claiming
    if lapses:
        kept.lapse()
    kept.answered([again])
    begin(kept, again, generation=2)
    kept.hear(EffectAsked("a", 2))
    assert kept.effects == {RUN: EffectMark(*RUN, only_in_time=lapses)}
    # Nor is it asked of a later claim of that request.
    kept.forget(RUN)
    begin(kept, again, generation=3)
    kept.hear(EffectAsked("a", 3))
    assert kept.effects["a", 3] == EffectMark("a", 3, only_in_time=False)
