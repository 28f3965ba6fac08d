"""The rules of claims and finishes, over every state of a row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.journal import FinishKind, JournalState, OwnRun, Row, VerdictKind
from consumer.journal.claims.verdict import (
    ClaimAction,
    decide,
    decide_finish,
    decide_refusal,
    is_claimed_anew,
    is_lost,
    resolution,
)
from tests.consumer.journal.samples import OTHER_SHA, SHA, claim, finish, refusal, row

NOW = 1_000
NOTHING: frozenset[tuple[str, int]] = frozenset()

ROWS = st.builds(
    row,
    request_id=st.just("a"),
    state=st.sampled_from(list(JournalState)),
    owner=st.sampled_from(["me", "peer"]),
    attempt=st.integers(1, 4),
    generation=st.integers(1, 4),
    deadline_at=st.integers(NOW - 3, NOW + 3),
    payload_sha256=st.sampled_from([SHA, OTHER_SHA]),
    claimed_at=st.sampled_from([None, NOW - 1, NOW]),
    resend=st.booleans(),
)
HELD = st.frozensets(st.tuples(st.just("a"), st.integers(1, 4)))


def decided(
    a_row: Row | None,
    held: frozenset[tuple[str, int]] = NOTHING,
    attempt: int = 1,
    tried: tuple[str, ...] = ("a",),
    reopens: int | None = None,
) -> str:
    wish = claim("a", attempt=attempt)._replace(reopens=reopens)
    decision = decide(wish, a_row, NOW, worker_id="me", held=held, tried=tried)
    return decision.kind if decision.step is ClaimAction.ANSWER else decision.step


def test_a_request_without_a_row_is_inserted() -> None:
    assert decided(None) == ClaimAction.INSERT


def test_a_wake_up_without_a_row_is_no_request() -> None:
    wish = claim("a", wakes=1)
    decision = decide(wish, None, NOW, worker_id="me", held=NOTHING, tried=())
    assert (decision.step, decision.kind) == (ClaimAction.ANSWER, VerdictKind.ANSWERED)


@pytest.mark.parametrize(
    "state",
    [JournalState.SUCCEEDED, JournalState.SKIPPED, JournalState.EXPIRED, JournalState.FAILED],
)
def test_what_ended_for_good_is_answered_however_high_the_attempt(state: JournalState) -> None:
    assert decided(row(state=state), attempt=9) == VerdictKind.ANSWERED


@pytest.mark.parametrize(
    ("attempt", "deadline_at", "expected"),
    [
        (1, NOW + 1, VerdictKind.ANSWERED),
        (2, NOW + 1, ClaimAction.REOPEN),
        (1, NOW, VerdictKind.ANSWERED),
        (2, NOW, ClaimAction.CLOSE),
        (2, NOW - 1, ClaimAction.CLOSE),
    ],
)
def test_a_failure_that_a_resend_may_help_is_reopened_before_its_deadline_and_closed_after_it(
    attempt: int, deadline_at: int, expected: str
) -> None:
    failed = row(state=JournalState.FAILED, resend=True, deadline_at=deadline_at)
    assert decided(failed, attempt=attempt) == expected


@pytest.mark.parametrize(
    ("reopens", "expected"),
    [
        (0, VerdictKind.ANSWERED),
        (1, VerdictKind.ANSWERED),
        (2, ClaimAction.REOPEN),
        (None, ClaimAction.REOPEN),
    ],
)
def test_a_failure_is_reopened_by_nobody_who_had_not_been_told_of_it(
    reopens: int | None, expected: str
) -> None:
    failed = row(state=JournalState.FAILED, resend=True, generation=2)
    assert decided(failed, attempt=9, reopens=reopens) == expected


@pytest.mark.parametrize(
    ("owner", "held", "expected"),
    [
        ("me", NOTHING, VerdictKind.RUN),
        ("me", frozenset({("a", 2)}), VerdictKind.RUNNING),
        ("me", frozenset({("a", 1)}), VerdictKind.RUNNING),
        ("peer", NOTHING, VerdictKind.RUNNING),
    ],
)
def test_a_claim_of_mine_that_i_do_not_hold_is_mine_and_any_other_runs(
    owner: str, held: frozenset[tuple[str, int]], expected: str
) -> None:
    claimed = row(owner=owner, deadline_at=NOW - 5)
    assert decided(claimed, held) == expected


def test_a_claim_of_mine_that_i_neither_hold_nor_tried_has_ended_here_and_is_not_granted() -> None:
    assert decided(row(owner="me"), tried=("b",)) == VerdictKind.RUNNING


@pytest.mark.parametrize(
    "a_row",
    [None, row(state=JournalState.FAILED, resend=True), row(state=JournalState.RETRYING, due_at=1)],
)
def test_no_run_is_granted_beside_one_in_hand_whose_claim_the_database_has_lost(
    a_row: Row | None,
) -> None:
    assert decided(a_row, frozenset({("a", 2)}), attempt=3) == VerdictKind.RUNNING


NOTHING_CAME = (JournalState.FAILED, JournalState.EXPIRED, JournalState.SKIPPED)
REFUSALS = ("INVALID_MESSAGE", "PAYLOAD_MISMATCH")
OWN = OwnRun(claim("a"), 2, False, finish("a", 2))
STANDS = st.builds(
    row,
    request_id=st.just("a"),
    generation=st.integers(1, 3),
    state=st.sampled_from(list(JournalState)),
    owner=st.sampled_from(["me", "peer"]),
    payload_sha256=st.sampled_from([SHA, OTHER_SHA]),
    claimed_at=st.sampled_from([None, NOW]),
    code=st.sampled_from([None, "RESOLVED", *REFUSALS]),
)


@given(stands=STANDS, runs=st.booleans())
def test_only_a_row_that_says_less_than_the_worker_knows_is_forgotten(
    stands: Row, runs: bool
) -> None:
    one = OWN._replace(finish=None) if runs else OWN
    says_more = stands.generation > 2 or stands.payload_sha256 == OTHER_SHA
    leads_on = stands.state in (JournalState.CLAIMED, JournalState.RETRYING)
    has_ended = runs and stands.generation == 1 and not leads_on
    is_denial = stands.state != JournalState.FAILED or stands.code in REFUSALS
    knows_nothing = stands.claimed_at is None and stands.state in NOTHING_CAME and is_denial
    says_as_much = stands.generation == 2 and (
        runs or not (knows_nothing or stands.state in (JournalState.CLAIMED, JournalState.IN_DOUBT))
    )
    expected = not (says_more or says_as_much or has_ended)
    assert is_lost(one, stands, stands.owner) is expected
    assert is_lost(one, None, "me")


@pytest.mark.parametrize(
    ("facts", "acted"),
    [
        ({"entered": True}, True),
        ({"effect_kind": "external"}, True),
        ({"effect_kind": "external", "is_begun": False}, False),
        ({}, False),
        ({"effect_kind": "transactional"}, False),
        ({"state": JournalState.SUCCEEDED}, True),
        ({"state": JournalState.IN_DOUBT}, True),
        ({"state": JournalState.FAILED}, False),
        ({"state": JournalState.RETRYING}, False),
    ],
)
@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (JournalState.EXPIRED, "DEADLINE_OVER"),
        (JournalState.SKIPPED, None),
        *((JournalState.FAILED, code) for code in REFUSALS),
    ],
)
def test_a_run_that_may_have_acted_is_lost_under_an_end_that_knows_of_no_claim(
    facts: dict[str, Any], acted: bool, ended: JournalState, code: str | None
) -> None:
    effect_kind, state = facts.get("effect_kind", "marked"), facts.get("state")
    end = None if state is None else finish("a", state=state)
    known = OwnRun(
        claim("a", effect_kind=effect_kind),
        1,
        facts.get("entered", False),
        end,
        facts.get("is_begun", True),
    )
    knows_nothing = row(state=ended, owner="peer", code=code)
    assert is_lost(known, knows_nothing, "me") is acted
    if end is not None:
        expected = FinishKind.LOST if acted else FinishKind.STALE
        assert decide_finish(end, knows_nothing, "me") is expected
    # A peer has ended this very run.
    ends_it = row(state=ended, owner="peer", code=code, claimed_at=NOW)
    assert not is_lost(known, ends_it, "me")
    assert end is None or decide_finish(end, ends_it, "me") is FinishKind.STALE


@pytest.mark.parametrize("state", [JournalState.SUCCEEDED, JournalState.IN_DOUBT])
@pytest.mark.parametrize("resend", [True, False])
def test_what_a_person_has_resolved_as_failed_is_no_end_that_knows_of_no_claim(
    state: JournalState, resend: bool
) -> None:
    end = finish("a", state=state)
    # The doubt was about a record that was read again: it has no claim.
    resolved = row(state=JournalState.FAILED, owner="peer", code="RESOLVED", resend=resend)
    assert not is_lost(OwnRun(claim("a"), 1, True, end), resolved, "me")
    assert not is_lost(OwnRun(claim("a"), 1, True, None), resolved, "me")
    assert decide_finish(end, resolved, "me") is FinishKind.STALE


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (JournalState.SUCCEEDED, True),
        (JournalState.SKIPPED, True),
        (JournalState.FAILED, False),
        (JournalState.RETRYING, False),
    ],
)
def test_a_doubt_about_what_was_pruned_gives_way_only_to_an_end_that_no_run_follows(
    state: JournalState, expected: bool
) -> None:
    stands = row(state=JournalState.IN_DOUBT, code="FORGOTTEN")
    for generation in (1, 2):
        known = OwnRun(claim("a"), generation, False, finish("a", generation, state))
        assert is_lost(known, stands, "me") is expected


@pytest.mark.parametrize("state", [JournalState.RETRYING, JournalState.IN_DOUBT])
def test_what_waits_is_told_as_it_is(state: JournalState) -> None:
    assert decided(row(state=state), attempt=9) == state.value


@given(a_row=ROWS, held=HELD, attempt=st.integers(1, 5))
def test_no_rule_lets_a_request_run_that_must_not(
    a_row: Row, held: frozenset[tuple[str, int]], attempt: int
) -> None:
    asked = claim("a", attempt=attempt)
    decision = decide(asked, a_row, NOW, worker_id="me", held=held, tried=("a",))
    mismatch = a_row.payload_sha256 != SHA
    assert (decision.kind is VerdictKind.MISMATCH) == mismatch
    assert decision.step is not ClaimAction.INSERT
    if decision.step is ClaimAction.REOPEN:
        assert a_row.state == JournalState.FAILED
        assert a_row.resend and attempt > a_row.attempt and a_row.deadline_at > NOW
    elif decision.kind is VerdictKind.RUN:
        assert (a_row.state, a_row.owner) == (JournalState.CLAIMED, "me")
        assert ("a", a_row.generation) not in held


@given(a_row=ROWS, attempt=st.integers(1, 5), reopens=st.none() | st.integers(0, 5))
def test_a_refusal_touches_only_the_failure_that_waited_for_its_record(
    a_row: Row, attempt: int, reopens: int | None
) -> None:
    step = decide_refusal(refusal("a", attempt=attempt, reopens=reopens), a_row, NOW)
    waited = a_row.state == JournalState.FAILED and a_row.resend and a_row.payload_sha256 == SHA
    is_asked = reopens is None or reopens >= a_row.generation
    if not (waited and is_asked) or attempt <= a_row.attempt:
        assert step is ClaimAction.ANSWER
    else:
        assert step is (ClaimAction.REOPEN if a_row.deadline_at > NOW else ClaimAction.CLOSE)


@given(a_row=ROWS, generation=st.integers(1, 5), state=st.sampled_from(list(JournalState)))
def test_a_late_finish_only_ever_ends_its_own_run_or_resolves_the_doubt_about_it(
    a_row: Row, generation: int, state: JournalState
) -> None:
    kind = decide_finish(finish("a", generation, state, claimed_at=NOW), a_row, "me")
    if kind is FinishKind.WRITTEN:
        assert a_row.generation == generation
        assert a_row.owner == "me" or a_row.claimed_at in (None, NOW)
        if a_row.state == JournalState.CLAIMED:
            assert a_row.owner == "me" or a_row.claimed_at == NOW
            return
        assert a_row.state == JournalState.IN_DOUBT
        resolved = resolution(finish("a", generation, state)).state
        assert resolved in (JournalState.SUCCEEDED, JournalState.FAILED)
    if kind is FinishKind.ALREADY:
        assert (a_row.state, a_row.generation, a_row.owner) == (state, generation, "me")


ACTED = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)
OPEN = (JournalState.CLAIMED, JournalState.RETRYING)


@pytest.mark.parametrize(
    ("owner", "claimed_at", "is_anew"),
    [
        ("me", NOW - 1, False),
        # Our own claim as a sweep is to find it, and one that a peer has taken over to ask about.
        ("me-disowned", NOW - 1, False),
        ("peer", NOW, False),
        ("peer", NOW - 1, True),
        ("peer-disowned", NOW - 1, True),
        ("peer", None, True),
    ],
)
def test_a_claim_of_another_worker_that_was_not_made_when_ours_was_is_another_one(
    owner: str, claimed_at: int | None, is_anew: bool
) -> None:
    stands = row(owner=owner, claimed_at=claimed_at)
    assert is_claimed_anew(stands, NOW, "me") is is_anew
    kind = decide_finish(finish("a", state="FAILED", claimed_at=NOW), stands, "me")
    assert kind is (FinishKind.STALE if is_anew else FinishKind.WRITTEN)


@pytest.mark.parametrize("stands", list(JournalState))
@pytest.mark.parametrize("state", [one for one in JournalState if one is not JournalState.CLAIMED])
def test_of_two_runs_of_one_generation_only_an_end_that_may_have_acted_comes_over_the_other_run(
    state: JournalState, stands: JournalState
) -> None:
    end = finish("a", state=state, claimed_at=NOW - 1)
    others = row(state=stands, owner="peer", claimed_at=NOW)
    is_open = stands in (*OPEN, JournalState.IN_DOUBT)
    is_over = state in ACTED and is_open
    expected = FinishKind.LOST if is_over else FinishKind.STALE
    assert decide_finish(end, others, "me") is expected
    one = OwnRun(claim("a")._replace(claimed_at=NOW - 1), 1, True, end)
    assert is_lost(one, others, "me") is is_over
    # One that goes on, and may have acted, is as good as one in doubt.
    goes_on = one._replace(finish=None)
    assert is_lost(goes_on, others, "me") is is_open
    assert not is_lost(goes_on._replace(entered=False), others, "me")
    # Once the doubt is about both runs, a success alone says more.
    of_both = others._replace(code="CLAIMED_TWICE")
    says_more = is_over and (stands in OPEN or state == JournalState.SUCCEEDED)
    assert is_lost(one, of_both, "me") is says_more
    assert is_lost(goes_on, of_both, "me") is (stands in OPEN)
    # Another payload's claim is another request.
    another = others._replace(payload_sha256=OTHER_SHA)
    assert not is_lost(one, another, "me")
    assert decide_finish(end, another, "me") is FinishKind.STALE


@pytest.mark.parametrize("state", [one for one in JournalState if one is not JournalState.CLAIMED])
def test_a_doubt_about_two_runs_of_one_generation_is_resolved_by_a_success_alone(
    state: JournalState,
) -> None:
    doubt = row(state=JournalState.IN_DOUBT, code="CLAIMED_TWICE", claimed_at=NOW)
    mine = decide_finish(finish("a", state=state, claimed_at=NOW), doubt, "me")
    others = decide_finish(finish("a", state=state, claimed_at=NOW + 1), doubt, "peer")
    if state is JournalState.SUCCEEDED:
        assert (mine, others) == (FinishKind.WRITTEN, FinishKind.LOST)
    else:
        is_it = state is JournalState.IN_DOUBT
        assert mine is (FinishKind.ALREADY if is_it else FinishKind.STALE)
        assert others is FinishKind.STALE


def test_a_finish_whose_claim_is_not_there_is_lost() -> None:
    assert decide_finish(finish("a"), None, "me") is FinishKind.LOST
    assert decide_finish(finish("a", 2), row(), "me") is FinishKind.LOST


def test_a_doubt_about_a_run_that_was_not_to_run_ends_as_a_failure() -> None:
    told = finish("a", state=JournalState.SKIPPED, code="NOT_APPLICABLE")
    assert resolution(told) == told._replace(state=JournalState.FAILED)
