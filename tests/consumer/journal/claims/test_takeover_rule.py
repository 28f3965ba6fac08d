"""The rule of takeovers, case by case."""

from __future__ import annotations

import pytest

from consumer.journal import (
    WORKER_DIED,
    JournalState,
    Row,
    TakeoverKind,
    TakeoverResultKind,
)
from consumer.journal.claims.takeover_rule import (
    CRASH_LOOP,
    RUNS_LIMIT,
    WORKERS_LIMIT,
    TakeoverDecision,
    decide_takeover,
    effect_excluded,
)
from tests.consumer.journal.samples import OTHER_SHA, row, takeover

KIND = TakeoverKind
RESULT = TakeoverResultKind
NOW, DEADLINE = 1_000, 2_000


def claimed(**changes: object) -> Row:
    """Return a marked claim of worker `me`, generation 1, its effect not entered."""
    given = {"state": "CLAIMED", "owner": "me", "effect_kind": "marked", "deadline_at": DEADLINE}
    return row("a", **{**given, **changes})


def decided(
    stands: Row | None,
    kind: TakeoverKind = KIND.EXCLUDED,
    *,
    because: str = "CHILD_DIED",
    error: str | None = None,
    now: int = NOW,
    owner_lives: bool = True,
    ended_runs: dict[str, int] | None = None,
    held: tuple[tuple[str, int], ...] = (("a", 1),),
) -> TakeoverDecision:
    """Return the decision about worker `me` taking over generation 1 of request `a`."""
    return decide_takeover(
        takeover("a", 1, kind, because, error=error),
        stands,
        now,
        worker_id="me",
        owner_lives=owner_lives,
        ended_runs=ended_runs or {},
        held=held,
    )


@pytest.mark.parametrize(
    ("effect_kind", "effect_at", "excluded"),
    [
        ("transactional", None, True),
        ("transactional", 5, True),
        ("marked", None, True),
        ("marked", 5, False),
        ("external", 5, False),
        ("external", None, False),  # whatever it says: its whole run may be the effect
        (None, None, False),
    ],
)
def test_what_is_excluded(effect_kind: str | None, effect_at: int | None, excluded: bool) -> None:
    assert effect_excluded(claimed(effect_kind=effect_kind, effect_at=effect_at)) is excluded


def test_a_run_of_our_own_that_left_nothing_is_followed_by_another() -> None:
    assert decided(claimed()).kind is RESULT.GRANTED


def test_a_peers_run_is_followed_only_when_its_lease_is_over() -> None:
    assert decided(claimed(owner="peer")).kind is RESULT.STALE
    assert decided(claimed(owner="peer"), owner_lives=False).kind is RESULT.GRANTED


@pytest.mark.parametrize(
    "state", [state for state in JournalState if state is not JournalState.CLAIMED]
)
def test_what_has_ended_is_not_taken_over(state: JournalState) -> None:
    assert decided(claimed(state=state)).kind is RESULT.STALE


def test_nothing_is_taken_over_that_went_on_or_is_gone() -> None:
    assert decided(None).kind is RESULT.STALE
    assert decided(claimed(generation=3)).kind is RESULT.STALE
    assert decided(claimed(generation=2, owner="peer")).kind is RESULT.STALE


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize("other", [{"payload_sha256": OTHER_SHA}, {"topic": "refunds"}])
def test_the_row_of_another_request_under_the_id_is_not_taken_over(
    kind: TakeoverKind, other: dict[str, str]
) -> None:
    stands = claimed(owner="dead", effect_at=5, **other)
    assert decided(stands, kind, owner_lives=False).kind is RESULT.STALE
    assert decided(stands, kind, now=DEADLINE, owner_lives=False).kind is RESULT.STALE
    ours = claimed(generation=2, **other)
    assert decided(ours, kind).kind is RESULT.STALE


def test_nothing_is_taken_over_beside_a_later_run_in_hand_whose_claim_is_lost() -> None:
    assert decided(claimed(owner="dead"), owner_lives=False, held=(("a", 2),)).kind is RESULT.STALE


def test_an_earlier_try_of_unknown_outcome_is_ours() -> None:
    assert decided(claimed(generation=2)).kind is RESULT.MINE
    assert decided(claimed(generation=2), held=(("a", 2),)).kind is RESULT.STALE


def test_an_effect_that_began_after_all_is_doubtful() -> None:
    assert decided(claimed(effect_at=5)).kind is RESULT.DOUBTFUL
    assert decided(claimed(effect_kind="external")).kind is RESULT.DOUBTFUL
    assert decided(claimed(effect_at=5), KIND.SAME_KEY).kind is RESULT.GRANTED
    assert decided(claimed(effect_at=5), KIND.VOIDED).kind is RESULT.GRANTED


@pytest.mark.parametrize(
    ("kind", "state", "code"),
    [
        (KIND.EXCLUDED, JournalState.EXPIRED, "DEADLINE_OVER"),
        (KIND.VOIDED, JournalState.EXPIRED, "DEADLINE_OVER"),
        (KIND.SAME_KEY, JournalState.IN_DOUBT, "CHILD_DIED"),
    ],
)
def test_no_run_begins_at_the_deadline(kind: TakeoverKind, state: JournalState, code: str) -> None:
    stands = claimed(effect_at=None if kind is KIND.EXCLUDED else 5)
    before = decided(stands, kind, now=DEADLINE - 1)
    at = decided(stands, kind, now=DEADLINE)
    assert before.kind is RESULT.GRANTED
    assert (at.kind, at.state, at.code) == (RESULT.ENDED, state, code)


def test_the_counterparty_may_be_asked_at_any_time() -> None:
    late = decided(claimed(effect_at=5), KIND.ASK, now=DEADLINE, ended_runs={"CHILD_DIED": 99})
    assert late.kind is RESULT.GRANTED


@pytest.mark.parametrize(
    ("kind", "state"),
    [(KIND.EXCLUDED, JournalState.FAILED), (KIND.SAME_KEY, JournalState.IN_DOUBT)],
)
def test_three_runs_without_an_end_are_a_crash_loop(
    kind: TakeoverKind, state: JournalState
) -> None:
    stands = claimed(effect_at=None if kind is KIND.EXCLUDED else 5)
    earlier = {"CHILD_DIED": RUNS_LIMIT - 2}
    assert decided(stands, kind, ended_runs=earlier).kind is RESULT.GRANTED
    found = decided(stands, kind, ended_runs={**earlier, "TIMEOUT": 1})
    assert (found.kind, found.state, found.code) == (RESULT.ENDED, state, CRASH_LOOP)


def test_three_errors_are_no_crash_loop_and_the_last_one_is_named() -> None:
    found = decided(
        claimed(effect_at=5),
        KIND.SAME_KEY,
        because="HANDLER_ERROR",
        error="ReadTimeout: the bank\0 is slow",
        ended_runs={"HANDLER_ERROR": RUNS_LIMIT - 1},
    )
    assert (found.state, found.code) == (JournalState.IN_DOUBT, "HANDLER_ERROR")
    assert found.message is not None
    assert found.message.endswith("HANDLER_ERROR, ReadTimeout: the bank\ufffd is slow")


def test_workers_that_die_are_not_held_against_a_request_so_soon() -> None:
    stands = claimed(owner="peer")
    many = {WORKER_DIED: WORKERS_LIMIT - 2}
    found = decided(stands, because=WORKER_DIED, owner_lives=False, ended_runs=many)
    assert found.kind is RESULT.GRANTED
    assert decided(claimed(), ended_runs=many).kind is RESULT.GRANTED
    more = {WORKER_DIED: WORKERS_LIMIT - 1}
    last = decided(stands, because=WORKER_DIED, owner_lives=False, ended_runs=more)
    assert (last.kind, last.code) == (RESULT.ENDED, CRASH_LOOP)
