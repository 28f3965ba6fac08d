"""A send under an id that is known already."""

from collections.abc import Callable

import pytest

from feedback.clock import monotonic_s
from feedback.envelope import Record, decode_headers
from feedback.errors import NotSent, PayloadMismatch
from feedback.status import State
from producer_client import Client
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

Records = Callable[[], list[Record]]


def test_it_is_the_next_attempt_with_the_same_deadline(client: Client, records: Records) -> None:
    first = client.send(b"v", key="k", request_id="r1", deadline_s=60)
    again = client.send(b"v", key="k", request_id="r1", deadline_s=600)
    envelopes = [decode_headers(record) for record in records()]
    assert [one.attempt for one in envelopes] == [1, 2]
    assert {one.deadline_at for one in envelopes} == {first.deadline_at} == {again.deadline_at}
    status = again.status()
    assert (status.state, status.attempt) == (State.PENDING, 2)
    assert status.deadline_at == first.deadline_at


@pytest.mark.parametrize(
    "state", [State.SUCCEEDED, State.SKIPPED, State.EXPIRED, State.IN_DOUBT, State.FAILED]
)
def test_one_that_has_ended_is_not_sent_and_its_handle_answers_at_once(
    client: Client, worker: Worker, records: Records, state: State
) -> None:
    client.send(b"v", request_id="r1")
    worker.tell("r1", state, result="[1]")
    handle = client.send(b"v", request_id="r1")
    assert len(records()) == 1
    began_s = monotonic_s()
    found = handle.wait(timeout_s=10)
    assert monotonic_s() - began_s < 1
    assert (found.state, found.attempt, found.result) == (state, 1, [1])


def test_a_failure_that_a_resend_may_help_is_opened_again(
    client: Client, worker: Worker, records: Records
) -> None:
    client.send(b"v", request_id="r1")
    worker.tell("r1", State.FAILED, code="BUSY", resend="1")
    status = client.send(b"v", request_id="r1").status()
    assert (status.state, status.attempt, status.code) == (State.PENDING, 2, None)
    assert [decode_headers(record).attempt for record in records()] == [1, 2]


def test_one_that_runs_is_sent_for_the_journal_to_answer_and_still_reads_running(
    client: Client, worker: Worker, records: Records
) -> None:
    client.send(b"v", request_id="r1")
    worker.tell("r1", State.RUNNING)
    assert client.send(b"v", request_id="r1").status().state is State.RUNNING
    assert [decode_headers(record).attempt for record in records()] == [1, 2]


@pytest.mark.parametrize(
    ("key", "value"), [(b"k", b"w"), (b"l", b"v"), (None, b"v"), (b"k", None), (b"kv", b"")]
)
def test_another_payload_is_refused_and_touches_nothing(
    client: Client,
    worker: Worker,
    records: Records,
    key: bytes | None,
    value: bytes | None,
) -> None:
    client.send(b"v", key=b"k", request_id="r1")
    before = client.status("r1"), worker.store.kept_payload("r1"), worker.looked_at("r1")
    with pytest.raises(PayloadMismatch, match="r1 is already taken"):
        client.send(value, key=key, request_id="r1")
    assert before == (
        client.status("r1"),
        worker.store.kept_payload("r1"),
        worker.looked_at("r1"),
    )
    assert [record.value for record in records()] == [b"v"]


def test_another_payload_is_refused_after_the_end_as_well(
    client: Client, worker: Worker, records: Records
) -> None:
    client.send(b"v", request_id="r1")
    worker.tell("r1", State.SUCCEEDED)
    with pytest.raises(PayloadMismatch):
        client.send(b"w", request_id="r1")
    assert client.status("r1").state is State.SUCCEEDED
    assert len(records()) == 1


def test_a_resend_that_fails_for_certain_leaves_the_trace_of_the_first(
    client: Client, make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    first = client.send(b"v", request_id="r1")
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=0.5)
    with pytest.raises(NotSent):
        cut_off.send(b"v", request_id="r1")
    status = client.status("r1")
    assert (status.state, status.deadline_at) == (State.PENDING, first.deadline_at)
    assert worker.store.kept_payload("r1") == first.payload
    assert worker.looked_at("r1") is not None
