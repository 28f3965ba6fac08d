"""The pure parts: what follows PENDING, which topics rest, and who is asked again."""

from dataclasses import replace

import pytest

from feedback.errors import RedisRefused
from feedback.records.envelope import Envelope, FirstPlace
from feedback.records.stored_payload import StoredPayload
from feedback.status import RefusalReason, State
from feedback.statuses import Refused, Status
from producer_client.client.wait_rules import WaitedRequest
from producer_client.outbox.circuit import Circuit
from producer_client.outbox.cooldown import Cooldowns
from producer_client.outbox.row import READ, columns_of, row_of
from producer_client.outbox.row_pending import RowStep, step_after
from producer_client.sending.resending import is_own_end
from producer_client.submission import Prepared


def refused(
    state: State, *, resend: bool = False, reason: RefusalReason = RefusalReason.GENERATION
) -> Refused:
    return Refused(reason=reason, state=state, attempt=1, generation=1, resend=resend)


@pytest.mark.parametrize(
    ("what", "step"),
    [
        (None, RowStep.SEND),
        (refused(State.PENDING, reason=RefusalReason.ATTEMPT), RowStep.LOOK),
        (refused(State.PENDING), RowStep.SEND),
        (refused(State.ACCEPTED, reason=RefusalReason.ATTEMPT), RowStep.SEND),
        (refused(State.RUNNING), RowStep.SEND),
        (refused(State.IN_DOUBT), RowStep.ANSWERED),
        (refused(State.SUCCEEDED), RowStep.ANSWERED),
        (refused(State.FAILED), RowStep.ANSWERED),
        (refused(State.FAILED, resend=True), RowStep.LOOK),
        (refused(State.SUCCEEDED, reason=RefusalReason.PAYLOAD), RowStep.PARK),
        (RedisRefused("WRONGTYPE"), RowStep.PARK),
    ],
)
def test_what_follows_a_pending(what: Refused | RedisRefused | None, step: RowStep) -> None:
    assert step_after(what) is step


@pytest.mark.parametrize(
    ("reopens", "first"),
    [
        (None, None),
        (2, None),
        (None, FirstPlace("payments", 3, 17)),
        (0, FirstPlace("payments", 3, 17, -1)),
    ],
    ids=str,
)
def test_a_row_keeps_what_its_sending_says_beside_the_headers_of_its_user(
    reopens: int | None, first: FirstPlace | None
) -> None:
    headers = (("traceparent", b"00-1"), ("x", b"\xff"))
    payload = StoredPayload("payments", b"k", None, headers)
    one = Prepared(Envelope("a", 2, 500, reopens, first), payload, "sha", named_by_caller=True)
    written = {**columns_of(one, group="g"), "id": 1, "created_at": 2}
    assert row_of([written[name] for name in READ]).request == one


@pytest.mark.parametrize(
    ("attempt", "deadline_at", "told_at", "reopens", "is_own"),
    [
        (1, 500, 100, None, True),
        (2, 500, 100, None, True),
        (1, 400, 100, None, False),
        # Told after the row was written, or in the same moment.
        (1, 400, 201, None, True),
        (1, 400, 200, None, True),
        (1, 400, 201, 1, False),
        (1, 400, 100, 0, True),
    ],
)
def test_a_failure_is_this_rows_own_end_or_one_that_its_caller_was_told_of(
    attempt: int, deadline_at: int, told_at: int, reopens: int | None, is_own: bool
) -> None:
    envelope = Envelope("a", 1, 500, reopens)
    status = Status(
        "a", State.FAILED, attempt, generation=1, deadline_at=deadline_at, updated_at=told_at
    )
    assert is_own_end(envelope, 200, status) is is_own
    # Nobody charges twice because of it: told of a failure, no caller has it run again elsewhere.
    status = replace(status, resend=True)
    waited_for = WaitedRequest("a", None, 500, 0.0, attempt=1, reopens=reopens, written_at=200)
    assert waited_for.is_open(status) is not is_own
    assert not waited_for.begins_resend(status, now_s=1e6, resend_after_s=1)
    assert not waited_for.is_open(replace(status, resend=False))


def test_a_topic_rests_for_longer_each_time_and_is_back_when_it_takes_something() -> None:
    cooldowns = Cooldowns(unknown_s=30)
    now_s, rest_s = 100.0, []
    for _ in range(5):
        assert (
            cooldowns.note(sent=[], away={"t": "why"}, unknown=[], forbidden=[], now_s=now_s)[1]
            == []
        )
        due_s = cooldowns.due_in_s(now_s)
        assert due_s is not None
        rest_s.append(due_s)
        assert cooldowns.resting(now_s) == ["t"]
        now_s += due_s
        assert cooldowns.resting(now_s) == []
    assert rest_s == [0.25, 0.5, 1.0, 2.0, 2.0]
    assert cooldowns.away == ["t"]
    assert cooldowns.note(sent=["t"], away={}, unknown=[], forbidden=[], now_s=now_s) == ([], ["t"])
    assert cooldowns.due_in_s(now_s) is None


def test_a_topic_is_lost_when_kafka_alone_has_said_so_for_long_enough() -> None:
    cooldowns = Cooldowns(unknown_s=30)

    def note(now_s: float, *unknown: str) -> list[str]:
        cooldowns.note(sent=[], away={"t": ""}, unknown=unknown, forbidden=[], now_s=now_s)
        return cooldowns.lost()

    assert note(0, "t") == []
    assert note(29, "t") == []
    assert note(31, "t") == ["t"]
    # It is parked, not tried, however late.
    assert cooldowns.resting(1000) == ["t"]
    assert cooldowns.due(1000) == []
    assert cooldowns.due_in_s(31) is None
    assert note(32) == []  # Kafka itself was away
    assert note(100, "t") == []
    cooldowns.forget(["t"])
    assert note(131, "t") == []


def test_a_forbidden_topic_rests_for_up_to_a_minute_and_is_tried_by_itself() -> None:
    cooldowns = Cooldowns(unknown_s=30)
    now_s, rest_s = 100.0, []
    for _ in range(7):
        cooldowns.note(sent=[], away={"t": ""}, unknown=[], forbidden=["t"], now_s=now_s)
        assert cooldowns.forbidden(now_s) == []
        due_s = cooldowns.due_in_s(now_s)
        assert due_s is not None
        rest_s.append(due_s)
        now_s += due_s
        assert cooldowns.forbidden(now_s) == cooldowns.resting(now_s) == ["t"]
    assert rest_s == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    cooldowns.note(sent=[], away={"t": "no answer"}, unknown=[], forbidden=[], now_s=now_s)
    now_s += 60
    assert cooldowns.forbidden(now_s) == cooldowns.resting(now_s) == ["t"]
    cooldowns.note(sent=["t"], away={}, unknown=[], forbidden=[], now_s=now_s)
    assert cooldowns.resting(now_s) == []


def test_a_topic_that_is_due_is_no_reason_to_look_again_and_again() -> None:
    cooldowns = Cooldowns(unknown_s=30)
    cooldowns.note(sent=[], away={"a": "", "b": ""}, unknown=[], forbidden=[], now_s=0)
    assert cooldowns.due_in_s(0.2) == pytest.approx(0.05)
    assert cooldowns.due(1) == ["a", "b"]
    assert cooldowns.due_in_s(1) is None


def test_while_somebody_is_away_one_caller_at_a_time_asks_again() -> None:
    circuit = Circuit()
    assert circuit.allows("k", 0)
    assert circuit.failed("k", 0) is True
    # Those that had asked before it was known are no further failures.
    assert circuit.failed("k", 0.1) is False
    assert not circuit.allows("k", 0.4)
    assert circuit.allows("k", 0.6)
    assert not circuit.allows("k", 0.7)
    assert circuit.failed("k", 1.2) is False
    assert not circuit.allows("k", 2.1)
    assert circuit.allows("k", 2.3)
    assert circuit.worked("k") is True
    assert circuit.worked("k") is False
    assert circuit.allows("k", 2.3)
    assert circuit.allows("other", 0)
