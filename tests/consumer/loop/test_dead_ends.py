"""What becomes of a claim that nobody holds, by what its client was told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.handlers.declaration import EffectKind, Handler, InDoubtPolicy
from consumer.journal import WORKER_DIED, DeadEnd, Row
from consumer.journal import JournalState as Journaled
from consumer.journal.records import END_LOST
from consumer.loop import dead_ends
from consumer.loop.continuation import NextStep
from consumer.loop.recovery.sweeper import after_dead
from feedback.status import DISOWNED, State
from feedback.statuses import Status
from tests.consumer.journal.samples import OTHER_SHA, SHA, row

TOLD = Status("a", State.SUCCEEDED, generation=1, result={"ok": True}, payload_sha256=SHA)
MARKED = Handler(
    function=print,
    topic="payments",
    name="payments",
    effect=EffectKind.MARKED,
    in_doubt=InDoubtPolicy.PARK,
)


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.SKIPPED])
def test_a_final_status_of_the_claim_or_of_a_later_one_is_its_end(
    state: State, generation: int
) -> None:
    told = replace(TOLD, state=state, generation=generation, resend=state is State.FAILED)
    end = dead_ends.told_end(row(), told)
    is_later = generation > 1
    assert (end is not None and end.later is not None) is is_later
    assert end is not None and replace(end, later=None) == DeadEnd(
        "a",
        1,
        Journaled(state.value),
        None,
        None,
        result='{"ok":true}',
        resend=told.resend,
        told_generation=generation,
    )


@pytest.mark.parametrize(
    "told",
    [
        None,
        replace(TOLD, state=State.RUNNING),
        replace(TOLD, state=State.RETRYING),
        replace(TOLD, state=State.UNKNOWN),
        replace(TOLD, generation=0),
        replace(TOLD, payload_sha256=OTHER_SHA),
    ],
)
def test_any_other_status_ends_nothing(told: Status | None) -> None:
    assert dead_ends.told_end(row(), told) is None


def test_a_transactional_success_that_the_database_has_lost_runs_again_and_a_failure_does_not() -> (
    None
):
    claim = row(effect_kind="transactional")
    assert dead_ends.told_end(claim, TOLD) is None
    assert dead_ends.told_end(claim, replace(TOLD, state=State.FAILED)) is not None


@pytest.mark.parametrize(
    ("claimed", "told", "is_end"),
    [
        ("external", "transactional", False),
        ("transactional", "external", True),
        ("transactional", None, True),
        ("transactional", "garbage", True),
    ],
)
def test_whether_the_effect_of_a_later_success_is_lost_is_said_by_how_that_run_was_declared(
    claimed: str, told: str | None, is_end: bool
) -> None:
    later = replace(TOLD, generation=2, effect_kind=told)
    assert (dead_ends.told_end(row(effect_kind=claimed), later) is not None) is is_end


def test_a_marked_claim_is_in_doubt_once_it_says_so() -> None:
    assert after_dead(row(effect_at=5), MARKED) is NextStep.PARK
    assert after_dead(row(), MARKED) is NextStep.RUN_AGAIN


@pytest.mark.parametrize("state", [State.EXPIRED, State.SKIPPED])
@pytest.mark.parametrize(
    ("claim", "claimed_at", "is_doubted"),
    [
        (row(effect_at=5), None, True),
        (row(effect_kind="external"), None, True),
        (row(effect_at=5), 4, False),  # this run, or its retry, has ended so
        (row(), None, False),
        (row(effect_kind="transactional"), None, False),
    ],
)
def test_a_run_that_may_have_acted_did_not_end_as_if_it_had_never_been_claimed(
    state: State, claim: Row, claimed_at: int | None, is_doubted: bool
) -> None:
    end = dead_ends.told_end(claim, replace(TOLD, state=state, claimed_at=claimed_at))
    assert end is not None
    assert end.state == ("IN_DOUBT" if is_doubted else state.value)
    if is_doubted:
        assert (end.code, state.value in (end.message or "")) == (END_LOST, True)


def test_a_claim_that_a_living_worker_gave_up_is_not_said_to_be_of_a_dead_one() -> None:
    given_up = row(owner=f"me{DISOWNED}")
    assert dead_ends.parked(given_up).code == END_LOST
    assert dead_ends.parked(row()).code == WORKER_DIED


def test_a_run_that_left_nothing_and_has_no_handler_any_more_expires_as_any_other_request() -> None:
    end = dead_ends.without_handler(row())
    assert (end.state, end.code) == (Journaled.EXPIRED, "DEADLINE_OVER")


def test_a_doubt_is_about_the_latest_run_that_a_client_was_told_of() -> None:
    later = replace(TOLD, state=State.RUNNING, generation=3)
    doubt = dead_ends.without_handler(row(), later)
    assert (doubt.state, doubt.generation, doubt.told_generation) == (Journaled.IN_DOUBT, 1, 3)
    others = replace(later, payload_sha256=OTHER_SHA)
    assert dead_ends.without_handler(row(), others).told_generation is None


@pytest.mark.parametrize(("told", "voids"), [(1, 1), (None, None)])
def test_an_end_or_a_doubt_about_a_later_run_has_the_key_of_that_one(
    told: int | None, voids: int | None
) -> None:
    later = replace(TOLD, generation=2, voids=told)
    end = dead_ends.told_end(row(), later)
    assert end is not None
    assert (end.told_generation, end.voids) == (2, voids)
    assert dead_ends.without_handler(row(), later).voids == voids


@pytest.mark.parametrize(
    ("voids", "policy"), [(1, InDoubtPolicy.RETRY_SAME_KEY), (None, InDoubtPolicy.PARK)]
)
def test_an_end_as_a_later_run_names_the_claim_of_that_one(
    voids: int | None, policy: InDoubtPolicy
) -> None:
    later = replace(
        TOLD,
        generation=2,
        voids=voids,
        in_doubt="retry_same_key",
        effect_kind="marked",
        claimed_at=9,
    )
    end = dead_ends.told_end(row(), later)
    assert end is not None and end.later is not None
    said = (end.later.claimed_at, end.later.effect_kind, end.later.in_doubt)
    assert said == (9, EffectKind.MARKED, policy)
    assert dead_ends.without_handler(row(), later).later == end.later
    assert dead_ends.without_handler(row()).later is None


def test_the_end_of_the_claim_itself_keeps_its_key() -> None:
    end = dead_ends.told_end(row(generation=2, voids=1), replace(TOLD, generation=2, voids=0))
    assert end is not None
    assert end.voids is None
