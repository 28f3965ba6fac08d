"""A send under an id that is known already."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from feedback.clock import epoch_ms
from feedback.errors import NotSent, PayloadMismatch, SendUnknown
from feedback.records.envelope import FirstPlace, Record, decode_headers
from feedback.status import State
from producer_client import Client
from producer_client.sending.send_flow import SendFlow
from producer_client.submission import Prepared, Submission
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

Records = Callable[[], list[Record]]
AtOnce = Callable[..., Future[Any]]


def test_it_is_the_next_attempt_with_the_same_deadline(client: Client, records: Records) -> None:
    first = client.send(b"v", key="k", request_id="r1", deadline_s=60)
    again = client.send(b"v", key="k", request_id="r1", deadline_s=600)
    envelopes = [decode_headers(record) for record in records()]
    assert [one.attempt for one in envelopes] == [1, 2]
    assert {one.deadline_at for one in envelopes} == {first.deadline_at} == {again.deadline_at}
    status = again.status()
    assert (status.state, status.attempt) == (State.PENDING, 2)
    assert status.deadline_at == first.deadline_at


def test_a_client_that_sends_again_says_which_record_it_repeats(
    client: Client, worker: Worker, records: Records
) -> None:
    topic = client.send(b"v", request_id="r1").payload.topic
    first = FirstPlace(topic, 3, 5, -1)
    worker.tell("r1", State.ACCEPTED, worker="", partition="3", offset="9", first=first.text)
    client.send(b"v", request_id="r1")
    assert [decode_headers(one).first for one in records()] == [None, first]


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
    found = handle.wait(timeout_s=0)
    assert (found.state, found.attempt, found.result) == (state, 1, [1])


def test_a_failure_that_a_resend_may_help_is_opened_again(
    client: Client, worker: Worker, records: Records, group: str
) -> None:
    client.send(b"v", request_id="r1")
    worker.tell("r1", State.FAILED, code="BUSY", resend="1")
    status = client.send(b"v", request_id="r1").status()
    assert (status.state, status.attempt, status.code) == (State.PENDING, 2, None)
    assert [decode_headers(record).attempt for record in records()] == [1, 2]
    second = records()[-1]
    read_by = [decode_headers(second, group=one).reopens for one in (group, f"{group}x")]
    assert read_by == [status.generation, 0]


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
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=2)
    with pytest.raises(SendUnknown):
        cut_off.send(b"v", request_id="r1")
    status = client.status("r1")
    assert (status.state, status.attempt) == (State.PENDING, 1)
    assert status.deadline_at == first.deadline_at
    assert worker.store.kept_payload("r1") == first.payload
    assert worker.looked_at("r1") is not None


def test_a_resend_that_fails_for_certain_shows_again_that_it_is_lost(
    client: Client, make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    client.send(b"v", request_id="r1")
    worker.accept("r1")
    before = client.status("r1")
    assert before.state is State.LOST
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=2)
    for _ in range(2):
        with pytest.raises(SendUnknown):
            cut_off.send(b"v", request_id="r1")
        assert client.status("r1") == before


def test_a_resend_that_fails_hides_nothing_that_a_worker_told_meanwhile(
    client: Client, make_client: MakeClient, worker: Worker, refusing: str, at_once: AtOnce
) -> None:
    client.send(b"v", request_id="r1")
    worker.accept("r1")
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=3)
    failing = at_once(cut_off.send, b"v", request_id="r1")
    eventually(lambda: client.status("r1").attempt == 2, timeout_s=30)
    worker.tell("r1", State.RUNNING)
    with pytest.raises(SendUnknown):
        failing.result()
    assert client.status("r1").state is State.RUNNING


def test_a_resend_that_kafka_refuses_leaves_the_trace_of_what_redis_has_forgotten(
    client: Client, make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    handle = client.send(b"v", request_id="r1")
    known = handle.status()
    worker.lose_all()
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=2)
    with pytest.raises(SendUnknown):
        cut_off.resend("r1", handle.payload, known=known)
    assert client.status("r1").state is State.PENDING
    assert worker.store.kept_payload("r1") == handle.payload


async def _unknown_to_both(
    self: SendFlow, batch: Sequence[Prepared]
) -> list[Prepared | SendUnknown | None]:
    """Be somebody who has looked before the other one told anything."""
    return list(batch)


def test_a_first_send_that_another_one_overtook_is_unknown_when_kafka_refuses_it(
    client: Client,
    make_client: MakeClient,
    worker: Worker,
    refusing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = SendFlow._as_resends

    async def overtaken(
        self: SendFlow, batch: Sequence[Prepared]
    ) -> list[Prepared | SendUnknown | None]:
        found = await looks(self, batch)
        monkeypatch.setattr(SendFlow, "_as_resends", looks)
        client.send(b"v", request_id="r1")
        worker.tell("r1", State.RUNNING)
        return found

    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=3)
    monkeypatch.setattr(SendFlow, "_as_resends", overtaken)
    with pytest.raises(SendUnknown, match="may have been sent before"):
        cut_off.send(b"v", request_id="r1")
    assert client.status("r1").state is State.RUNNING


def test_a_first_send_behind_a_resend_that_is_taken_back_keeps_its_trace(
    client: Client,
    make_client: MakeClient,
    worker: Worker,
    refusing: str,
    at_once: AtOnce,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = SendFlow._as_resends
    failing: list[Future[Any]] = []

    async def overtaken_twice(
        self: SendFlow, batch: Sequence[Prepared]
    ) -> list[Prepared | SendUnknown | None]:
        found = await looks(self, batch)
        monkeypatch.setattr(SendFlow, "_as_resends", looks)
        for attempt, cut_off in enumerate(cut_offs, start=1):
            failing.append(at_once(cut_off.send, b"v", request_id="r1"))
            eventually(lambda: worker.store.read("r1").attempt == attempt, timeout_s=30)  # noqa: B023
        return found

    # The first of them fails last.
    away = {"bootstrap_servers": refusing}
    cut_offs = [make_client(kafka=away, send_timeout_s=limit_s) for limit_s in (9, 3)]
    monkeypatch.setattr(SendFlow, "_as_resends", overtaken_twice)
    handle = client.send(b"v", request_id="r1")
    for one in reversed(failing):
        with pytest.raises(SendUnknown, match=r"has it now|may have been sent before"):
            one.result()
    status = client.status("r1")
    assert (status.state, status.attempt) == (State.PENDING, 2) == (status.state, handle.attempt)
    assert worker.store.kept_payload("r1") == handle.payload
    assert worker.looked_at("r1") is not None


@pytest.mark.parametrize("fails_first", [True, False])
def test_of_two_first_sends_at_once_the_one_that_fails_takes_nothing_from_the_other(
    client: Client,
    make_client: MakeClient,
    worker: Worker,
    refusing: str,
    at_once: AtOnce,
    monkeypatch: pytest.MonkeyPatch,
    fails_first: bool,
) -> None:
    monkeypatch.setattr(SendFlow, "_as_resends", _unknown_to_both)
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=3)
    sends = [
        partial(at_once, cut_off.send, b"v", request_id="r1"),
        partial(at_once, client.send, b"v", request_id="r1", deadline_s=60),
    ]
    first, second = sends if fails_first else sends[::-1]
    begun = [first()]
    eventually(lambda: client.status("r1").state is State.PENDING, timeout_s=30)
    begun.append(second())
    failing, sending = begun if fails_first else begun[::-1]
    with pytest.raises(SendUnknown):
        failing.result()
    handle = sending.result()
    status = client.status("r1")
    assert (status.state, status.attempt) == (State.PENDING, 1)
    assert status.deadline_at == handle.deadline_at
    assert worker.store.kept_payload("r1") == handle.payload
    assert worker.looked_at("r1") is not None


def test_of_two_first_sends_at_once_that_both_fail_no_trace_is_left(
    make_client: MakeClient,
    worker: Worker,
    refusing: str,
    at_once: AtOnce,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SendFlow, "_as_resends", _unknown_to_both)
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=3)
    failing = [at_once(cut_off.send, b"v", request_id="r1") for _ in range(4)]
    for one in failing:
        # Whoever failed while another one still tried cannot know how that ends.
        with pytest.raises((NotSent, SendUnknown)):
            one.result()
    assert worker.traces() == []


def test_a_first_send_that_a_resender_has_taken_up_meanwhile_is_unknown(
    make_client: MakeClient, worker: Worker, refusing: str, at_once: AtOnce
) -> None:
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=3)
    for name, takes_up in (("taken", worker.take_due), ("sent", worker.send_again)):
        failing = at_once(cut_off.send, b"v", request_id=name)
        eventually(partial(worker.looked_at, name), timeout_s=30)
        takes_up(name)
        with pytest.raises(SendUnknown, match="has it now"):
            failing.result()
        assert cut_off.status(name).state is State.PENDING


def test_the_resender_looks_no_sooner_than_a_send_may_take(
    make_client: MakeClient, worker: Worker
) -> None:
    hasty = make_client(send_timeout_s=20, resend_after_s=1)
    before = epoch_ms()
    hasty.send(b"v", request_id="r1")
    assert (worker.looked_at("r1") or 0) - before >= 20_000


def test_what_was_sent_before_is_unknown_when_redis_is_away_as_well(
    client: Client, make_client: MakeClient, refusing: str
) -> None:
    client.send(b"v", request_id="r1")
    cut_off = make_client(redis={"url": f"redis://{refusing}/0"})
    with pytest.raises(SendUnknown, match="may have been sent before"):
        cut_off.send(b"v", request_id="r1")
    results = list(cut_off.send_many([Submission(b"v", request_id="r1"), Submission(b"v")]))
    assert [type(one.error) for one in results] == [SendUnknown, NotSent]
