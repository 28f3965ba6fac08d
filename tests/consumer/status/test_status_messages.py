"""The statuses that are made of deliveries, outcomes and rows."""

from typing import Any

import pytest

from consumer.journal import Finish
from consumer.status import status_messages
from feedback.records.envelope import FirstPlace
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.samples import SHA, TIMESTAMP_MS, delivery, row

CLAIMED = row("a", "CLAIMED", effect_kind="external", in_doubt="park", claimed_at=7)
PLACE = {"topic": "payments", "partition": "3", "offset": "17"}


def test_accepted_names_the_worker_and_the_coordinates() -> None:
    write = status_messages.accepted(delivery("a", 2), worker_id="me")
    assert (write.state, write.attempt, write.generation) == (State.ACCEPTED, 2, 0)
    assert (write.payload_sha256, write.held_by) == (SHA, None)
    deadline = {"deadline_at": str(TIMESTAMP_MS + 60_000)}
    assert write.fields == {
        "worker": "me",
        **PLACE,
        **deadline,
        "first": f"payments/3/17/{TIMESTAMP_MS}",
    }


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({"deadline_at": 5}, None),
        ({}, f"payments/3/17/{TIMESTAMP_MS}"),
        ({"deadline_at": 5, "first": FirstPlace("payments", 1, 2, -1)}, "payments/1/2/-1"),
        ({"first": FirstPlace("payments", 1, 2)}, "payments/1/2"),
    ],
    ids=str,
)
def test_what_is_not_claimed_yet_says_which_record_a_resend_repeats_where_its_place_does_not(
    facts: dict[str, Any], first: str | None
) -> None:
    one = delivery("a", 2)
    one = one._replace(envelope=one.envelope._replace(**facts))
    accepted = status_messages.accepted(one, worker_id="me")
    given_up = status_messages.given_up(one, worker_id="me")
    assert [write.fields.get("first") for write in (accepted, given_up)] == [first, first]


def test_given_up_names_nobody_and_is_taken_only_from_the_worker_that_says_it() -> None:
    write = status_messages.given_up(delivery("a"), worker_id="me", code="JOURNAL_UNAVAILABLE")
    assert (write.state, write.generation, write.held_by) == (State.ACCEPTED, 0, "me")
    assert (write.fields["worker"], write.fields["code"]) == ("", "JOURNAL_UNAVAILABLE")
    assert write.fields["offset"] == "17"


def test_finished_carries_the_outcome_and_whether_a_failure_may_be_resent() -> None:
    outcome = Finish("a", 3, "FAILED", "CARD_EXPIRED", "too old", None, False)
    write = status_messages.finished(delivery("a", 2), outcome, worker_id="me")
    assert (write.state, write.attempt, write.generation) == (State.FAILED, 2, 3)
    told = {name: write.fields.get(name) for name in ("worker", "code", "message", "resend")}
    assert told == {"worker": "me", "code": "CARD_EXPIRED", "message": "too old", "resend": "0"}
    assert not write.fields.get("result")


def test_a_success_says_nothing_but_its_result() -> None:
    outcome = Finish("a", 1, "SUCCEEDED", None, None, "7", False)
    fields = status_messages.finished(delivery("a"), outcome, worker_id="me").fields
    assert fields["result"] == "7"
    assert not any(fields.get(name) for name in ("code", "message", "by", "due_at"))


def test_a_claimed_row_is_running_at_its_owner_and_says_nothing_of_an_outcome() -> None:
    write = status_messages.from_row(row("a", "CLAIMED", generation=2, owner="other"))
    assert (write.state, write.generation, write.fields["worker"]) == (State.RUNNING, 2, "other")
    assert "code" not in write.fields


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "IN_DOUBT", "EXPIRED", "SKIPPED"])
def test_an_ended_row_is_told_as_it_ended(state: str) -> None:
    write = status_messages.from_row(row("a", state, result="1", code="C", resend=True, by="b"))
    assert write.state is State(state)
    told = {name: write.fields[name] for name in ("result", "code", "resend", "by", "due_at")}
    assert told == {"result": "1", "code": "C", "resend": "1", "by": "b", "due_at": ""}


def test_a_retrying_row_is_told_with_its_due_time() -> None:
    write = status_messages.from_row(row("a", "RETRYING", due_at=5))
    assert (write.state, write.fields["due_at"]) == (State.RETRYING, "5")


@pytest.mark.parametrize(("asked", "told"), [(None, 2), (1, 2), (3, 3)])
def test_the_higher_of_the_rows_and_the_deliverys_attempt_is_told(
    asked: int | None, told: int
) -> None:
    assert status_messages.from_row(row("a", "SUCCEEDED", attempt=2), attempt=asked).attempt == told


def test_only_a_mismatch_writes_over_another_payload() -> None:
    assert status_messages.from_row(row("a", "SUCCEEDED"), restore=True).restore
    assert not status_messages.from_row(row("a", "SUCCEEDED")).restore


@pytest.mark.parametrize(
    "write",
    [
        status_messages.running(delivery("a")._replace(claimed_at=7), 1, worker_id="me"),
        status_messages.retrying(delivery("a")._replace(claimed_at=7), 1, worker_id="me", due_at=5),
        status_messages.finished(
            delivery("a")._replace(claimed_at=7),
            Finish("a", 1, "SUCCEEDED", None, None, "7", False),
            worker_id="me",
        ),
        status_messages.retrying(delivery("a"), 1, worker_id="me", due_at=5, row=CLAIMED),
        status_messages.from_row(CLAIMED),
        status_messages.from_row(CLAIMED._replace(state="SUCCEEDED")),
    ],
    ids=["running", "retrying", "finished", "left", "claimed-row", "ended-row"],
)
def test_whatever_is_told_of_a_run_says_how_its_handler_was_declared_and_when_it_was_claimed(
    write: StatusWrite,
) -> None:
    assert (write.fields["effect_kind"], write.fields["in_doubt"]) == ("external", "park")
    assert write.fields["claimed_at"] == "7"


def test_a_row_that_never_ran_says_of_no_declaration() -> None:
    never = row("a", "EXPIRED", effect_kind=None, in_doubt=None, claimed_at=None)
    fields = status_messages.from_row(never).fields
    assert (fields["effect_kind"], fields["in_doubt"], fields["claimed_at"]) == ("", "", "")


FOLLOWS_A_VOID = row("a", "CLAIMED", generation=2, voids=1)
VOIDED = delivery("a")._replace(voids=1)
ENDED = Finish("a", 2, "SUCCEEDED", None, None, "7", False)


@pytest.mark.parametrize(
    "write",
    [
        status_messages.running(VOIDED, 2, worker_id="me"),
        status_messages.finished(VOIDED, ENDED, worker_id="me"),
        status_messages.retrying(VOIDED, 2, worker_id="me", due_at=5),
        status_messages.retrying(delivery("a"), 2, worker_id="me", due_at=5, row=FOLLOWS_A_VOID),
        status_messages.from_row(FOLLOWS_A_VOID),
        status_messages.from_row(FOLLOWS_A_VOID._replace(state="SUCCEEDED")),
    ],
    ids=["running", "finished", "retrying", "left", "claimed-row", "ended-row"],
)
def test_whatever_is_told_of_a_later_run_says_how_many_were_void(write: StatusWrite) -> None:
    assert write.fields["voids"] == "1"


def test_a_later_run_that_follows_no_void_says_so_and_a_first_run_says_nothing() -> None:
    later = status_messages.running(delivery("a"), 2, worker_id="me")
    assert later.fields["voids"] == "0"
    assert status_messages.from_row(row("a", "RETRYING", generation=2)).fields["voids"] == "0"
    assert "voids" not in status_messages.running(delivery("a"), 1, worker_id="me").fields
    assert "voids" not in status_messages.from_row(row("a", "SUCCEEDED")).fields
