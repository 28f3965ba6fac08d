"""What a relay tells while others tell of the same request: each step of theirs, in between."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from feedback.errors import RedisRefused
from feedback.records.envelope import Envelope, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import Refused, Replaced, Status, StatusWrite
from producer_client.outbox.row import WaitingRow
from producer_client.outbox.row_pending import PendingWriter, RowStep, ToldRow
from producer_client.submission import Prepared
from tests.producer_client.acting import Worker

PAYLOAD = StoredPayload("t", None, b"v")
DIGEST = payload_sha256(None, b"v")
# By a database whose clock is ahead: each failure was told before the row was written.
WRITTEN_AT = 2**42


@dataclass(slots=True)
class Others:
    """Who uses the same Redis, and acts between two steps of a relay.

    Attributes:
        before_reads: taken one after the other, before each look at the status.
        after_reads: likewise, after each.
    """

    store: StatusStore
    before_reads: list[Callable[[], object]] = field(default_factory=list)
    after_reads: list[Callable[[], object]] = field(default_factory=list)
    replaced: Replaced | None = None

    def fail(self, attempt: int) -> list[Refused | None]:
        """Tell a failure that a resend may reopen."""
        fields = {"code": "BUSY", "resend": "1", "deadline_at": "900"}
        return self.store.write([StatusWrite("a", State.FAILED, attempt, attempt, DIGEST, fields)])

    def resend(self) -> None:
        """Tell that it is sent again, as a client does first."""
        fields = {"deadline_at": "900"}
        write = StatusWrite("a", State.PENDING, 2, 0, DIGEST, fields, PAYLOAD, reopens=1)
        (answer,) = self.store.replace([write])
        assert not isinstance(answer, Refused | RedisRefused)
        self.replaced = answer

    def take_back(self) -> bool:
        """Take that back, as a client does whose record Kafka certainly has not."""
        return self.store.forget(
            "a", attempt=2, payload_sha256=DIGEST, deadline_at=900, replaced=self.replaced
        )

    def read(self, request_id: str) -> Status:
        """Read a status, with others acting before and after."""
        for step in self.before_reads[:1]:
            self.before_reads.remove(step)
            step()
        status = self.store.read_many([request_id])[0]
        for step in self.after_reads[:1]:
            self.after_reads.remove(step)
            step()
        return status


@pytest.fixture
def others(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Others]:
    """Yield the others, of a request that has failed once."""
    found = Others(worker.store)
    monkeypatch.setattr(worker.store, "read", found.read)
    assert found.fail(1) == [None]
    yield found
    assert (found.before_reads, found.after_reads) == ([], [])


def _told(others: Others) -> ToldRow:
    asked = Prepared(Envelope("a", 1, 500), PAYLOAD, DIGEST, named_by_caller=True)
    (told,) = PendingWriter(others.store, resend_after_s=30).tell(
        [WaitingRow(1, 0, WRITTEN_AT, asked)]
    )
    return told


def _stands(others: Others) -> tuple[State, int]:
    status = others.store.read_many(["a"])[0]
    return status.state, status.attempt


def test_a_failure_that_its_row_asks_about_is_told_to_be_opened_again(others: Others) -> None:
    told = _told(others)
    assert (told.step, told.request.envelope) == (RowStep.SEND, Envelope("a", 2, 900, 1))
    assert _stands(others) == (State.PENDING, 2)


def test_a_row_is_not_answered_by_a_resend_that_is_taken_back_afterwards(others: Others) -> None:
    others.before_reads = [others.resend]
    told = _told(others)
    assert (told.step, told.request.envelope.attempt) == (RowStep.SEND, 2)
    # The other's record was none: this row's is on its way.
    assert not others.take_back()
    assert _stands(others) == (State.PENDING, 2)


def test_what_another_has_opened_again_is_told_by_the_row_as_well(others: Others) -> None:
    others.resend()
    told = _told(others)
    assert (told.step, told.request.envelope.attempt) == (RowStep.SEND, 2)
    assert not others.take_back()
    assert _stands(others) == (State.PENDING, 2)


@pytest.mark.parametrize("is_taken_back", [True, False])
def test_a_resend_between_the_look_and_the_telling_loses_neither(
    others: Others, is_taken_back: bool
) -> None:
    def act() -> None:
        others.resend()
        if is_taken_back:
            others.take_back()

    others.after_reads = [act]
    told = _told(others)
    assert (told.step, told.request.envelope) == (RowStep.SEND, Envelope("a", 2, 900, 1))
    if not is_taken_back:
        assert not others.take_back()
    assert _stands(others) == (State.PENDING, 2)


def test_a_failure_between_the_look_and_the_telling_is_looked_at_in_its_turn(
    others: Others,
) -> None:
    others.after_reads = [lambda: others.fail(2)]
    told = _told(others)
    # Its handle would wait for ever: it takes this failure for one that the row asks about.
    assert (told.step, told.request.envelope) == (RowStep.SEND, Envelope("a", 3, 900, 2))
    assert _stands(others) == (State.PENDING, 3)


def test_an_end_between_the_look_and_the_telling_answers_the_row(others: Others) -> None:
    def succeed() -> None:
        write = StatusWrite("a", State.SUCCEEDED, 2, 2, DIGEST)
        assert others.store.write([write]) == [None]

    others.after_reads = [succeed]
    assert _told(others).step is RowStep.ANSWERED
    assert _stands(others) == (State.SUCCEEDED, 2)


def test_what_redis_forgets_before_the_look_is_told_as_the_row_says(others: Others) -> None:
    others.before_reads = [lambda: others.store.redis.delete(others.store.request_key("a"))]
    told = _told(others)
    assert (told.step, told.request.envelope) == (RowStep.SEND, Envelope("a", 1, 500))
    assert _stands(others) == (State.PENDING, 1)
