"""What a row becomes that is behind what its client was told: the pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.journal import JournalState as Journaled
from consumer.journal import Row, ToldRun
from consumer.journal.losses.told_rule import catch_up_with
from consumer.loop.mapping import claim_of_row
from consumer.loop.told_runs import leads, told_run
from feedback.records.envelope import FirstPlace
from feedback.status import DISOWNED, State
from feedback.statuses import Status
from tests.consumer.journal.samples import OTHER_SHA, SHA, claim, row

TOLD = Status(
    "a",
    State.RUNNING,
    attempt=3,
    generation=2,
    worker="its",
    payload_sha256=SHA,
    topic="payments",
    effect_kind="marked",
    in_doubt="retry_same_key",
    claimed_at=7,
    voids=0,
)
ENDED = replace(TOLD, state=State.SUCCEEDED, result={"ok": True})


def run_of(told: Status, *, alive: bool = False, declared: str = "marked") -> ToldRun:
    found = told_run(claim("a", effect_kind=declared), told, alive={"its"} if alive else ())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "state", [State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.EXPIRED, State.SKIPPED]
)
def test_a_final_status_is_how_its_run_ended(state: State) -> None:
    told = replace(ENDED, state=state, code="CODE", message="why", resend=True, by="other")
    found = run_of(told)
    assert (found.state, found.generation, found.claim.attempt) == (Journaled(state.value), 2, 3)
    assert (found.code, found.message, found.result) == ("CODE", "why", '{"ok":true}')
    assert (found.resend, found.by, found.owner) == (True, "other", "its")


@pytest.mark.parametrize("state", [State.RUNNING, State.RETRYING])
def test_a_run_without_an_end_is_its_workers_as_long_as_that_lives(state: State) -> None:
    told = replace(TOLD, state=state)
    assert run_of(told, alive=True).owner == "its"
    assert run_of(told).owner == f"its{DISOWNED}"
    assert run_of(replace(told, worker=f"its{DISOWNED}")).owner == f"its{DISOWNED}"
    assert run_of(told).state is Journaled.CLAIMED


@pytest.mark.parametrize("state", [State.PENDING, State.ACCEPTED, State.LOST])
def test_what_is_asked_for_again_had_failed_as_its_client_was_told(state: State) -> None:
    found = run_of(replace(TOLD, state=state))
    assert (found.state, found.resend, found.claim.attempt) == (Journaled.FAILED, True, 2)


def test_a_transactional_success_that_is_lost_has_lost_its_effect_and_so_has_no_end() -> None:
    found = run_of(replace(ENDED, effect_kind="transactional"), alive=True)
    assert (found.state, found.owner) == (Journaled.CLAIMED, f"its{DISOWNED}")


@pytest.mark.parametrize("declared", ["transactional", "marked", "external"])
def test_a_run_is_declared_as_its_client_was_told_however_its_handler_is_declared_now(
    declared: str,
) -> None:
    found = run_of(TOLD, declared=declared)
    assert (found.claim.effect_kind, found.claim.in_doubt) == ("marked", "retry_same_key")
    assert found.claim.claimed_at == 7
    assert run_of(ENDED, declared=declared).state is Journaled.SUCCEEDED


def test_a_run_has_the_place_of_the_first_record_that_its_client_was_told() -> None:
    assert run_of(TOLD).claim.first is None
    placed = replace(TOLD, partition=3, offset=5)
    assert run_of(placed).claim.first == FirstPlace("payments", 3, 5)
    first = FirstPlace("payments", 4, 2, -1)
    assert run_of(replace(placed, first=first)).claim.first == first


@pytest.mark.parametrize("told", [None, "garbage"])
def test_of_a_run_whose_declaration_was_not_told_the_effect_may_have_happened(
    told: str | None,
) -> None:
    found = run_of(replace(TOLD, effect_kind=told, in_doubt=None), declared="transactional")
    assert (found.claim.effect_kind, found.claim.in_doubt) == ("external", "park")


@pytest.mark.parametrize("told", [1, 0])
def test_a_run_has_the_key_that_its_client_was_told(told: int) -> None:
    found = run_of(replace(TOLD, voids=told))
    assert (found.claim.voids, found.claim.in_doubt) == (told, "retry_same_key")


@pytest.mark.parametrize("told", [None, -1, 2, 2**40])
def test_of_a_later_run_whose_key_was_not_told_a_person_decides(told: int | None) -> None:
    found = run_of(replace(TOLD, voids=told))
    assert (found.claim.voids, found.claim.in_doubt) == (0, "park")


def test_a_first_run_follows_no_void_one() -> None:
    found = run_of(replace(TOLD, generation=1, voids=None))
    assert (found.claim.voids, found.claim.in_doubt) == (0, "retry_same_key")


@pytest.mark.parametrize(
    ("told", "stands", "voids", "policy"),
    [(1, 0, 1, "retry_same_key"), (1, 1, 1, "retry_same_key"), (0, 1, 1, "park")],
)
def test_a_row_catches_up_with_the_key_as_well_and_never_goes_back_to_an_earlier_one(
    told: int, stands: int, voids: int, policy: str
) -> None:
    found = catch_up_with(run_of(replace(TOLD, voids=told)), row(voids=stands), owner_is_gone=True)
    assert found is not None
    assert (found.claim.voids, found.claim.in_doubt) == (voids, policy)


@pytest.mark.parametrize(
    "told",
    [
        Status("a", State.UNKNOWN),
        replace(TOLD, generation=0),
        replace(TOLD, payload_sha256=OTHER_SHA),
        replace(TOLD, topic="elsewhere"),
    ],
)
def test_any_other_status_is_of_no_run(told: Status) -> None:
    assert told_run(claim("a"), told, alive=()) is None


def test_a_request_without_a_row_and_one_whose_row_is_older_catch_up() -> None:
    for told in (TOLD, ENDED):
        one = run_of(told)
        assert catch_up_with(one, None) == one
        for state in (Journaled.FAILED, Journaled.RETRYING, Journaled.EXPIRED, Journaled.SKIPPED):
            assert catch_up_with(one, row(state=state)) == one


@pytest.mark.parametrize(
    "stands",
    [
        row(state=Journaled.FAILED, generation=2),
        row(state=Journaled.FAILED, generation=3),
        row(state=Journaled.FAILED, topic="elsewhere"),
        row(state=Journaled.FAILED, payload_sha256=OTHER_SHA),
        row(state=Journaled.CLAIMED),
    ],
)
def test_a_row_that_is_not_behind_or_not_the_same_or_claimed_stays(stands: Row) -> None:
    assert catch_up_with(run_of(ENDED), stands) is None


def test_a_claim_of_a_worker_that_is_gone_catches_up() -> None:
    one = run_of(TOLD)
    assert catch_up_with(one, row(), owner_is_gone=True) == one


@pytest.mark.parametrize("knows", [Journaled.SUCCEEDED, Journaled.IN_DOUBT])
@pytest.mark.parametrize(
    ("told", "generation"),
    [
        (State.RUNNING, 2),
        (State.PENDING, 3),
        (State.FAILED, 3),
        (State.EXPIRED, 3),
        (State.SUCCEEDED, None),
        (State.IN_DOUBT, None),
    ],
)
def test_what_has_happened_or_may_have_is_told_over_any_later_failure(
    knows: Journaled, told: State, generation: int | None
) -> None:
    stands = row(state=knows, code="X", result="7", owner="me", effect_kind="external")
    found = catch_up_with(run_of(replace(TOLD, state=told)), stands)
    assert found is not None
    is_its = generation is None
    assert found.claim.effect_kind == ("marked" if is_its else stands.effect_kind)
    if generation is None:
        assert (found.state, found.generation) == (Journaled(told.value), 2)
    else:
        assert (found.state, found.generation, found.result) == (knows, generation, "7")


def test_the_claim_of_a_row_names_the_same_request() -> None:
    stands = row(effect_kind=None)
    one = claim_of_row(stands)
    assert (one.topic, one.payload_sha256, one.attempt) == ("payments", SHA, 1)
    assert one.effect_kind == "external"


@pytest.mark.parametrize(
    ("told", "leading"),
    [
        (TOLD, False),  # our own run
        (replace(TOLD, generation=1, state=State.SUCCEEDED), False),
        (replace(TOLD, generation=3), True),
        (replace(TOLD, state=State.IN_DOUBT), True),
    ],
)
def test_a_client_was_told_more_than_of_our_run_where_that_ended_or_another_followed(
    told: Status, leading: bool
) -> None:
    assert leads(run_of(told, alive=True), ("a", 2)) is leading
    assert not leads(None, ("a", 2))
