"""When a waiting client resends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.status import FINAL, State
from producer_client.resending import MAX_BACKOFF_FACTOR, Step, next_step

SOON = (State.LOST, State.UNKNOWN)
LATER = tuple(state for state in State if state not in FINAL and state not in SOON)

states = st.sampled_from(list(State))
seconds = st.floats(min_value=0, max_value=1e6)
waits = st.floats(min_value=1e-3, max_value=1e4)
counts = st.integers(min_value=0, max_value=10_000)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_ends_the_wait(state: State) -> None:
    assert next_step(state, since_send_s=1e9, resends=0, resend_after_s=1) is Step.DONE


@pytest.mark.parametrize("state", SOON)
@pytest.mark.parametrize(
    ("resends", "since_send_s", "step"),
    [
        (0, 0.0, Step.RESEND),
        (1, 0.0, Step.WAIT),
        (1, 2.9, Step.WAIT),
        (1, 3.0, Step.RESEND),
        (9, 2.9, Step.WAIT),
        (9, 3.0, Step.RESEND),
    ],
)
def test_what_is_lost_or_unknown_is_resent_at_once_and_then_after_a_tenth(
    state: State, resends: int, since_send_s: float, step: Step
) -> None:
    found = next_step(state, since_send_s=since_send_s, resends=resends, resend_after_s=30)
    assert found is step


@pytest.mark.parametrize("state", LATER)
@pytest.mark.parametrize(
    ("resends", "due_s"), [(0, 30), (1, 60), (2, 120), (3, 240), (4, 240), (5_000, 240)]
)
def test_what_is_on_its_way_is_resent_after_a_while_that_doubles_up_to_eight_times(
    state: State, resends: int, due_s: float
) -> None:
    facts = {"resends": resends, "resend_after_s": 30}
    assert next_step(state, since_send_s=due_s - 0.1, **facts) is Step.WAIT
    assert next_step(state, since_send_s=due_s, **facts) is Step.RESEND


@given(states, seconds, counts, waits)
def test_only_a_final_state_is_done(
    state: State, since_send_s: float, resends: int, resend_after_s: float
) -> None:
    step = next_step(
        state, since_send_s=since_send_s, resends=resends, resend_after_s=resend_after_s
    )
    assert (step is Step.DONE) == (state in FINAL)


@given(states, seconds, seconds, counts, waits)
def test_once_due_it_stays_due(
    state: State, sooner_s: float, longer_s: float, resends: int, resend_after_s: float
) -> None:
    facts = {"resends": resends, "resend_after_s": resend_after_s}
    if next_step(state, since_send_s=sooner_s, **facts) is Step.RESEND:  # type: ignore[arg-type]
        later = next_step(state, since_send_s=sooner_s + longer_s, **facts)  # type: ignore[arg-type]
        assert later is Step.RESEND


@given(st.sampled_from(list(SOON + LATER)), counts, waits)
def test_nothing_waits_for_ever(state: State, resends: int, resend_after_s: float) -> None:
    limit_s = resend_after_s * MAX_BACKOFF_FACTOR
    step = next_step(state, since_send_s=limit_s, resends=resends, resend_after_s=resend_after_s)
    assert step is Step.RESEND
