"""When a waiting client resends, and when the resender does."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.status import FINAL, State
from producer_client.sending.resending import (
    MAX_BACKOFF_FACTOR,
    ClientStep,
    Ended,
    Later,
    Resend,
    ResendDecision,
    ResendReason,
    SearchFirst,
    SeenRequest,
    decide,
    draw_of,
    next_step,
    reopens,
    resend_pause_s,
)

SOON = (State.LOST, State.UNKNOWN)
LATER = tuple(state for state in State if state not in FINAL and state not in SOON)

states = st.sampled_from(list(State))
seconds = st.floats(min_value=0, max_value=1e6)
waits = st.floats(min_value=1e-3, max_value=1e4)
counts = st.integers(min_value=0, max_value=10_000)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_ends_the_wait(state: State) -> None:
    assert next_step(state, since_send_s=1e9, resends=0, resend_after_s=1) is ClientStep.DONE


@pytest.mark.parametrize("state", SOON)
@pytest.mark.parametrize(
    ("resends", "since_send_s", "step"),
    [
        (0, 0.0, ClientStep.RESEND),
        (1, 0.0, ClientStep.WAIT),
        (1, 2.9, ClientStep.WAIT),
        (1, 3.0, ClientStep.RESEND),
        (9, 2.9, ClientStep.WAIT),
        (9, 3.0, ClientStep.RESEND),
    ],
)
def test_what_is_lost_or_unknown_is_resent_at_once_and_then_after_a_tenth(
    state: State, resends: int, since_send_s: float, step: ClientStep
) -> None:
    found = next_step(state, since_send_s=since_send_s, resends=resends, resend_after_s=30)
    assert found is step


@pytest.mark.parametrize("state", SOON)
def test_what_could_not_be_resent_is_tried_again_after_a_tenth(state: State) -> None:
    for since_send_s, step in (
        (0.0, ClientStep.WAIT),
        (2.9, ClientStep.WAIT),
        (3.0, ClientStep.RESEND),
    ):
        found = next_step(
            state, since_send_s=since_send_s, resends=0, resend_after_s=30, has_failed=True
        )
        assert found is step


@pytest.mark.parametrize("state", LATER)
@pytest.mark.parametrize(
    ("resends", "due_s"), [(0, 30), (1, 60), (2, 120), (3, 240), (4, 240), (5_000, 240)]
)
def test_what_is_on_its_way_is_resent_after_a_while_that_doubles_up_to_eight_times(
    state: State, resends: int, due_s: float
) -> None:
    facts: dict[str, Any] = {"resends": resends, "resend_after_s": 30}
    assert next_step(state, since_send_s=due_s - 0.1, **facts) is ClientStep.WAIT
    assert next_step(state, since_send_s=due_s, **facts) is ClientStep.RESEND


@given(states, seconds, counts, waits)
def test_only_a_final_state_is_done(
    state: State, since_send_s: float, resends: int, resend_after_s: float
) -> None:
    step = next_step(
        state, since_send_s=since_send_s, resends=resends, resend_after_s=resend_after_s
    )
    assert (step is ClientStep.DONE) == (state in FINAL)


@given(states, seconds, seconds, counts, waits)
def test_once_due_it_stays_due(
    state: State, sooner_s: float, longer_s: float, resends: int, resend_after_s: float
) -> None:
    facts = {"resends": resends, "resend_after_s": resend_after_s}
    if next_step(state, since_send_s=sooner_s, **facts) is ClientStep.RESEND:  # type: ignore[arg-type]
        later = next_step(state, since_send_s=sooner_s + longer_s, **facts)  # type: ignore[arg-type]
        assert later is ClientStep.RESEND


@given(st.sampled_from(list(SOON + LATER)), counts, waits)
def test_nothing_waits_for_ever(state: State, resends: int, resend_after_s: float) -> None:
    limit_s = resend_after_s * MAX_BACKOFF_FACTOR
    step = next_step(state, since_send_s=limit_s, resends=resends, resend_after_s=resend_after_s)
    assert step is ClientStep.RESEND


AFTER_S = 30.0
OPEN = (State.PENDING, State.ACCEPTED, State.RUNNING, State.RETRYING)


def _decide(state: State, **facts: Any) -> ResendDecision:
    given: dict[str, Any] = {
        "attempt": 1,
        "since_told_s": 0.0,
        "left_s": 3600.0,
        "due_in_s": None,
        "draw": 0.5,
    }
    return decide(SeenRequest(state=state, **given | facts), resend_after_s=AFTER_S)


@pytest.mark.parametrize("state", sorted(FINAL))
@pytest.mark.parametrize("left_s", [None, 100.0, -100.0])
def test_the_resender_looks_no_more_at_what_has_ended(state: State, left_s: float | None) -> None:
    assert _decide(state, left_s=left_s, since_told_s=1e9) == Ended()


@pytest.mark.parametrize("attempt", [1, 2, 50])
def test_the_resender_sends_lost_and_unknown_ones_at_once(attempt: int) -> None:
    assert _decide(State.LOST, attempt=attempt) == Resend(ResendReason.LOST)
    assert _decide(State.LOST, attempt=attempt, left_s=-5.0) == Resend(ResendReason.LOST)
    assert _decide(State.UNKNOWN, attempt=0) == Resend(ResendReason.UNKNOWN)


def test_a_resend_reopens_no_failure_that_its_sender_had_not_been_told_of() -> None:
    assert reopens(State.FAILED, 2) == 2
    # Somebody has asked for it again, and it is on its way.
    assert [reopens(state, 2) for state in (State.PENDING, State.ACCEPTED, State.LOST)] == [2] * 3
    # The run that goes on may fail, and its client be told so.
    assert [reopens(state, 2) for state in (State.RUNNING, State.RETRYING)] == [1, 1]
    assert [reopens(state, 0) for state in State] == [0] * len(State)


@pytest.mark.parametrize("state", OPEN)
def test_what_is_silent_is_sent_again_with_full_jitter_up_to_eight_times(state: State) -> None:
    for attempt, factor in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (2**31, 8)]:
        for draw, wait_s in [(0.0, AFTER_S), (1.0, AFTER_S * factor)]:
            facts = {"attempt": attempt, "draw": draw}
            found = _decide(state, since_told_s=wait_s - 1, **facts)
            assert found == Later(1.0)
            assert _decide(state, since_told_s=wait_s, **facts) == Resend(ResendReason.SILENT)


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("attempt", [1, 9])
def test_what_is_overdue_is_soon_sent_until_it_is_final(state: State, attempt: int) -> None:
    past = {"left_s": -1.0, "attempt": attempt, "due_in_s": 500.0}
    assert _decide(state, since_told_s=10.0, **past) == Later(20.0)
    assert _decide(state, since_told_s=30.0, **past) == Resend(ResendReason.OVERDUE)


def test_a_retry_that_waits_for_its_time_is_looked_at_after_it_but_at_least_now_and_then() -> None:
    silent = {"since_told_s": 1e6}
    assert _decide(State.RETRYING, due_in_s=10.0, **silent) == Later(40.0)
    assert _decide(State.RETRYING, due_in_s=1e6, **silent) == Later(240.0)
    assert _decide(State.RETRYING, due_in_s=0.0, **silent) == Resend(ResendReason.SILENT)


def test_a_writer_whose_clock_is_ahead_costs_no_more_than_the_look_that_is_due() -> None:
    for state in OPEN:
        assert _decide(state, since_told_s=-300.0) == Resend(ResendReason.SILENT)


def test_a_resend_that_was_begun_is_finished_and_nothing_else_is_hurried() -> None:
    begun = {"is_unfinished": True, "since_told_s": 0.1}
    assert _decide(State.PENDING, **begun) == Resend(ResendReason.SILENT)
    assert _decide(State.PENDING, left_s=-1.0, **begun) == Resend(ResendReason.OVERDUE)
    for state in set(OPEN) - {State.PENDING}:
        assert isinstance(_decide(state, **begun), Later)
    assert _decide(State.SUCCEEDED, **begun) == Ended()


draws = st.floats(min_value=0, max_value=1)


@given(states, counts, seconds, st.none() | st.floats(-1e9, 1e9), draws, st.booleans())
def test_no_request_that_may_still_run_is_ever_forgotten_or_put_off_for_long(
    state: State,
    attempt: int,
    since_told_s: float,
    left_s: float | None,
    draw: float,
    is_unfinished: bool,
) -> None:
    facts = {"attempt": attempt, "draw": draw, "is_unfinished": is_unfinished}
    found = _decide(state, since_told_s=since_told_s, left_s=left_s, **facts)
    if isinstance(found, Later):
        longest_s = 3600 if left_s is not None and left_s <= 0 else AFTER_S * MAX_BACKOFF_FACTOR
        assert 0 < found.look_s <= longest_s
    assert (found == Ended()) == (state in FINAL)


@given(counts, draws, waits, st.none() | st.floats(0, 1e9))
def test_a_pause_lies_between_its_bounds(
    attempt: int, draw: float, resend_after_s: float, past_s: float | None
) -> None:
    found = resend_pause_s(attempt, draw, resend_after_s=resend_after_s, past_s=past_s)
    assert resend_after_s * 0.7 <= found
    longest_s = MAX_BACKOFF_FACTOR if past_s is None else 1.25
    assert found <= max(resend_after_s * longest_s, 0.0 if past_s is None else 3600) * 1.001


def test_what_nobody_closes_is_sent_ever_more_seldom_at_last_once_an_hour() -> None:
    now_s, sent_s = 0.0, list[float]()
    while now_s < 86_400:
        attempt = len(sent_s) + 1
        now_s += resend_pause_s(attempt, draw_of("r", attempt), resend_after_s=1, past_s=now_s)
        sent_s.append(now_s)
    assert len([at for at in sent_s if at < 60]) > 5
    assert len(sent_s) < 60
    assert all(0.6 * 3600 <= after - at <= 3600 for at, after in pairwise(sent_s[-12:]))


def test_a_pause_that_has_begun_grows_no_more() -> None:
    begun = {"left_s": -1000.0, "since_told_s": 400.0, "draw": 1.0}
    # 375 s by the 600 s that were past when it was told, and not 625 by the 1,000 of now.
    assert _decide(State.RUNNING, **begun) == Resend(ResendReason.OVERDUE)


@pytest.mark.parametrize("left_s", [100.0, -100.0, None])
def test_what_may_have_been_taken_back_before_redis_came_back_is_searched_for(
    left_s: float | None,
) -> None:
    from_before = {"is_from_before": True, "since_told_s": 1e6, "left_s": left_s}
    assert _decide(State.PENDING, **from_before) == SearchFirst(3600)
    assert _decide(State.PENDING, is_unfinished=True, **from_before) == SearchFirst(3600)
    assert _decide(State.PENDING, attempt=2, is_asked_anew=True, **from_before) == SearchFirst(3600)
    # Long after its deadline it can only expire, and then its end is told.
    assert _decide(State.PENDING, **from_before | {"left_s": -3600.0}) == Resend(
        ResendReason.OVERDUE
    )
    # What was sent before, or is a worker's by now, has been somewhere.
    assert isinstance(_decide(State.PENDING, attempt=2, **from_before), Resend)
    for state in (State.ACCEPTED, State.RUNNING, State.LOST):
        assert isinstance(_decide(state, **from_before), Resend)


def test_it_is_searched_for_when_it_would_be_sent_and_then_at_longer_and_longer_intervals() -> None:
    def decided(since_told_s: float) -> ResendDecision:
        return _decide(State.PENDING, is_from_before=True, since_told_s=since_told_s, draw=0.0)

    assert decided(AFTER_S - 1.0) == Later(1.0)
    assert decided(AFTER_S) == SearchFirst(AFTER_S)
    assert decided(10 * AFTER_S) == SearchFirst(10 * AFTER_S)
    # A clock that was set back.
    assert decided(-5.0) == SearchFirst(AFTER_S)


def test_resenders_draw_the_same_for_a_sending_and_evenly_over_many() -> None:
    assert draw_of("a", 1) == draw_of("a", 1)
    assert len({draw_of("a", 1), draw_of("a", 2), draw_of("b", 1)}) == 3
    drawn = sorted(draw_of(f"r{n}", n % 7) for n in range(4000))
    assert 0 <= drawn[0] < 0.01
    assert 0.45 < drawn[2000] < 0.55
    assert 0.99 < drawn[-1] <= 1
