"""The status rule: each clause of docs: Statuses, and what holds for all writes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.status import (
    BEFORE_CLAIM,
    FINAL,
    FOLLOWERS,
    STORED,
    RefusalReason,
    State,
    StoredFacts,
    WriteFacts,
    derive,
    judge,
    may_reopen,
)
from tests.feedback.samples import OTHER_SHA, SHA

AFTER_CLAIM = frozenset(STORED) - BEFORE_CLAIM


def stored(
    state: State, *, attempt: int = 1, generation: int = 1, resend: bool = False
) -> StoredFacts:
    return StoredFacts(state, attempt, generation, SHA, resend=resend, worker="w1")


def write(state: State, *, attempt: int = 1, generation: int = 1) -> WriteFacts:
    return WriteFacts(state, attempt, 0 if state in BEFORE_CLAIM else generation, SHA)


def after(old: StoredFacts | None, new: WriteFacts, *, resend: bool = False) -> StoredFacts:
    """Return what stands after a write that was judged."""
    if old is not None and judge(old, new) is not None:
        return old
    # As in Redis: a write without a generation leaves that of its payload.
    same = old is not None and old.payload_sha256 == new.payload_sha256
    generation = new.generation or (old.generation if old is not None and same else 0)
    resend = resend and new.state is State.FAILED
    return StoredFacts(new.state, new.attempt, generation, new.payload_sha256, resend, "w1")


states = st.sampled_from(STORED)
attempts = st.integers(1, 4)
shas = st.sampled_from([SHA, OTHER_SHA])
any_stored = st.builds(
    StoredFacts,
    states,
    attempts,
    st.integers(0, 4),
    shas,
    resend=st.booleans(),
    worker=st.sampled_from(["", "w1", "w2"]),
)
any_write = st.builds(
    WriteFacts,
    states,
    attempts,
    st.integers(0, 4),
    shas,
    restore=st.booleans(),
    held_by=st.sampled_from([None, "w1", "w2"]),
).map(lambda one: replace(one, generation=0) if one.state in BEFORE_CLAIM else one)


@pytest.mark.parametrize("state", STORED)
def test_a_request_nobody_knows_takes_any_status(state: State) -> None:
    assert judge(None, write(state)) is None


def test_the_way_of_a_request_is_taken_step_by_step() -> None:
    standing: StoredFacts | None = None
    for step in (State.PENDING, State.ACCEPTED, State.RUNNING, State.RETRYING):
        assert judge(standing, write(step)) is None
        standing = after(standing, write(step))
    assert judge(standing, write(State.RUNNING, generation=2)) is None
    assert judge(standing, write(State.SUCCEEDED, generation=2)) is None


@pytest.mark.parametrize("state", sorted(FINAL))
def test_any_open_status_may_end(state: State) -> None:
    for before in BEFORE_CLAIM:
        assert judge(stored(before, generation=0), write(state)) is None
    for before in (State.RUNNING, State.RETRYING):
        assert judge(stored(before), write(state)) is None


@pytest.mark.parametrize("final", sorted(FINAL - {State.IN_DOUBT}))
def test_a_final_status_never_changes(final: State) -> None:
    for state in AFTER_CLAIM - {final}:
        assert judge(stored(final), write(state)) is RefusalReason.STATE
    for early in BEFORE_CLAIM:
        assert judge(stored(final), write(early, attempt=2)) is RefusalReason.GENERATION


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.EXPIRED, State.SKIPPED])
def test_a_newer_generation_changes_no_final_status_that_was_not_reopened(state: State) -> None:
    for later in AFTER_CLAIM:
        assert judge(stored(state), write(later, generation=2, attempt=2)) is RefusalReason.STATE


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_an_in_doubt_is_resolved_by_the_same_or_a_newer_generation(state: State) -> None:
    assert judge(stored(State.IN_DOUBT), write(state)) is None
    # Resolved as failed and redriven while Redis was away: what came of that must still be told.
    assert judge(stored(State.IN_DOUBT), write(state, generation=2, attempt=2)) is None


def test_an_in_doubt_is_never_reopened() -> None:
    for state in set(STORED) - {State.IN_DOUBT, State.SUCCEEDED, State.FAILED}:
        for attempt in (1, 2):
            for generation in (1, 2):
                late = write(state, attempt=attempt, generation=generation)
                assert judge(stored(State.IN_DOUBT), late) is not None


@pytest.mark.parametrize("state", sorted(BEFORE_CLAIM))
def test_a_failure_that_a_resend_may_help_is_reopened_by_a_higher_attempt_only(
    state: State,
) -> None:
    failed = stored(State.FAILED, resend=True)
    assert judge(failed, write(state, attempt=2)) is None
    assert judge(failed, write(state, attempt=1)) is RefusalReason.GENERATION
    assert judge(replace(failed, attempt=3), write(state, attempt=2)) is RefusalReason.ATTEMPT


@pytest.mark.parametrize("state", sorted(BEFORE_CLAIM))
def test_a_failure_that_no_resend_helps_is_not_reopened_by_a_resend(state: State) -> None:
    assert judge(stored(State.FAILED), write(state, attempt=2)) is RefusalReason.GENERATION


@pytest.mark.parametrize("resend", [True, False])
def test_a_redriven_failure_starts_again_with_its_new_claim(resend: bool) -> None:
    failed = stored(State.FAILED, resend=resend)
    assert judge(failed, write(State.RUNNING, generation=2, attempt=2)) is None


def test_the_told_outcome_does_not_end_the_request_that_was_reopened() -> None:
    reopened = stored(State.PENDING, attempt=2, generation=1)
    assert judge(reopened, write(State.FAILED)) is RefusalReason.ATTEMPT


@pytest.mark.parametrize("state", STORED)
def test_an_older_generation_never_overwrites_a_newer_one(state: State) -> None:
    for late in AFTER_CLAIM:
        for attempt in (1, 2, 3):
            found = judge(stored(state, attempt=2, generation=2), write(late, attempt=attempt))
            assert found is RefusalReason.GENERATION


@pytest.mark.parametrize("state", [State.RUNNING, State.RETRYING])
def test_what_was_claimed_does_not_go_back_to_pending_or_accepted(state: State) -> None:
    for early in BEFORE_CLAIM:
        assert judge(stored(state), write(early, attempt=2)) is RefusalReason.GENERATION


def test_an_accepted_does_not_go_back_to_pending_of_its_own_attempt() -> None:
    accepted = stored(State.ACCEPTED, generation=0)
    assert judge(accepted, write(State.PENDING)) is RefusalReason.STATE
    assert judge(accepted, write(State.PENDING, attempt=2)) is None


def test_a_wake_up_that_comes_late_does_not_show_a_retry_as_running() -> None:
    assert judge(stored(State.RETRYING), write(State.RUNNING)) is RefusalReason.STATE


def test_an_older_attempt_is_taken_only_with_a_final_outcome() -> None:
    running = stored(State.RUNNING, attempt=2)
    for state in (State.RUNNING, State.RETRYING):
        assert judge(running, write(state)) is RefusalReason.ATTEMPT
    for state in FINAL:
        assert judge(running, write(state)) is None


def test_an_older_attempt_ends_what_a_resend_announced_meanwhile() -> None:
    resent = stored(State.PENDING, attempt=2, generation=0)
    assert judge(resent, write(State.RUNNING)) is RefusalReason.ATTEMPT
    assert judge(resent, write(State.SUCCEEDED)) is None


@pytest.mark.parametrize("state", STORED)
def test_another_payload_is_refused_whatever_it_says(state: State) -> None:
    other = replace(write(state, attempt=9, generation=9), payload_sha256=OTHER_SHA)
    for standing in STORED:
        assert judge(stored(standing, resend=True), other) is RefusalReason.PAYLOAD


@pytest.mark.parametrize("state", STORED)
def test_a_mismatch_verdict_rewrites_the_status_from_the_row(state: State) -> None:
    row = replace(write(state), payload_sha256=OTHER_SHA, restore=True)
    for standing in STORED:
        assert judge(stored(standing, attempt=5, generation=5), row) is None


def test_a_restore_of_the_same_payload_is_judged_like_any_other_write() -> None:
    row = replace(write(State.RUNNING), restore=True)
    assert judge(stored(State.SUCCEEDED), row) is RefusalReason.STATE


def test_a_worker_gives_up_only_what_it_still_holds() -> None:
    accepted = stored(State.ACCEPTED, generation=0)
    given_up = write(State.ACCEPTED)
    assert judge(accepted, replace(given_up, held_by="w1")) is None
    assert judge(accepted, replace(given_up, held_by="w2")) is RefusalReason.WORKER
    assert (
        judge(replace(accepted, worker=""), replace(given_up, held_by="w1")) is RefusalReason.WORKER
    )


def test_lost_is_what_a_dead_worker_or_none_has_accepted() -> None:
    assert derive(State.ACCEPTED, worker="w1", worker_alive=True) is State.ACCEPTED
    assert derive(State.ACCEPTED, worker="w1", worker_alive=False) is State.LOST
    assert derive(State.ACCEPTED, worker="", worker_alive=False) is State.LOST
    assert derive(State.ACCEPTED, worker="", worker_alive=True) is State.LOST


@pytest.mark.parametrize("state", sorted(set(STORED) - {State.ACCEPTED}))
def test_only_an_accepted_request_reads_as_lost(state: State) -> None:
    assert derive(state, worker="", worker_alive=False) is state


def test_a_payload_is_needed_until_a_status_that_cannot_be_reopened() -> None:
    needed = {state for state in STORED if may_reopen(state, resend=False)}
    assert needed == set(STORED) - FINAL
    assert may_reopen(State.FAILED, resend=True)
    for state in FINAL - {State.FAILED}:
        assert not may_reopen(state, resend=True)


def test_the_derived_states_are_never_stored() -> None:
    assert set(FOLLOWERS) == set(STORED) == set(State) - {State.LOST, State.UNKNOWN}


@given(any_stored, any_write)
def test_final_statuses_change_only_by_resolution_and_reopening(
    old: StoredFacts, new: WriteFacts
) -> None:
    if old.state not in FINAL or new.payload_sha256 != old.payload_sha256:
        return
    if judge(old, new) is not None or new.state is old.state:
        return
    if old.state is State.IN_DOUBT:
        assert new.state in (State.SUCCEEDED, State.FAILED)
        return
    assert old.state is State.FAILED
    by_claim = new.generation > old.generation
    by_resend = old.resend and new.attempt > old.attempt and new.state in BEFORE_CLAIM
    assert by_claim or by_resend


@given(any_stored, any_write)
def test_nothing_older_is_taken(old: StoredFacts, new: WriteFacts) -> None:
    if judge(old, new) is not None or new.payload_sha256 != old.payload_sha256:
        return
    if new.state not in BEFORE_CLAIM:
        assert new.generation >= old.generation
    else:
        assert old.state in BEFORE_CLAIM or (old.state is State.FAILED and old.resend)
    if new.attempt < old.attempt:
        assert new.state in FINAL


@given(any_stored, any_write)
def test_another_payload_is_taken_only_from_the_journal(old: StoredFacts, new: WriteFacts) -> None:
    if judge(old, new) is None and new.payload_sha256 != old.payload_sha256:
        assert new.restore


@given(st.none() | any_stored, any_write)
def test_a_write_that_was_taken_may_be_repeated(old: StoredFacts | None, new: WriteFacts) -> None:
    if judge(old, new) is None:
        again = replace(new, held_by=None)
        assert judge(after(old, new), again) is None


WAYS = {
    "plain": [
        write(State.PENDING),
        write(State.ACCEPTED),
        write(State.RUNNING),
        write(State.SUCCEEDED),
    ],
    "retried": [
        write(State.PENDING),
        write(State.RUNNING),
        write(State.RETRYING),
        write(State.RUNNING, generation=2),
        write(State.FAILED, generation=2),
    ],
    "resent twice": [
        write(State.PENDING),
        write(State.PENDING, attempt=2),
        write(State.ACCEPTED),
        write(State.PENDING, attempt=3),
        write(State.ACCEPTED, attempt=3),
        write(State.RUNNING),
        write(State.SUCCEEDED),
    ],
    "reopened": [
        write(State.PENDING),
        write(State.RUNNING),
        write(State.FAILED),
        write(State.PENDING, attempt=2),
        write(State.ACCEPTED, attempt=2),
        write(State.RUNNING, attempt=2, generation=2),
        write(State.SUCCEEDED, attempt=2, generation=2),
    ],
    "resolved": [
        write(State.ACCEPTED),
        write(State.RUNNING),
        write(State.IN_DOUBT),
        write(State.SUCCEEDED),
    ],
    "resolved and redriven": [
        write(State.RUNNING),
        write(State.IN_DOUBT),
        write(State.FAILED),
        write(State.RUNNING, attempt=2, generation=2),
        write(State.SUCCEEDED, attempt=2, generation=2),
    ],
    "expired": [
        write(State.PENDING),
        write(State.ACCEPTED),
        write(State.PENDING, attempt=2),
        write(State.EXPIRED),
    ],
}


@pytest.mark.parametrize("way", WAYS)
@given(data=st.data())
def test_writes_in_any_order_end_where_the_journal_ended(way: str, data: st.DataObject) -> None:
    ending = WAYS[way][-1]
    standing: StoredFacts | None = None
    late = data.draw(st.lists(st.sampled_from(WAYS[way]), max_size=4))
    for one in data.draw(st.permutations(WAYS[way] + late)):
        standing = after(standing, one, resend=way == "reopened")
    assert standing is not None
    assert (standing.state, standing.generation) == (ending.state, ending.generation)
