"""A wait that resends: at LOST, after a while, when Redis forgot; and when it does not."""

import itertools
import operator
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from feedback.errors import PayloadMismatch, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.records.envelope import Record, decode_headers
from feedback.records.stored_payload import StoredPayload
from feedback.redis.async_store import AsyncStatusStore
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client, Handle
from producer_client.sending.send_flow import SendFlow
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.producer_client.waits import ends_in_vain
from tests.rounds import holds_in_one_round, in_time

Records = Callable[[], list[Record]]
AtOnce = Callable[..., Future[Any]]
LIMIT_S = 60.0


@pytest.fixture
def patient(make_client: MakeClient) -> Client:
    """Return a client that resends by time only after minutes."""
    return make_client(resend_after_s=300, poll_interval_s=0.1)


def _attempts(records: list[Record]) -> list[int]:
    return [decode_headers(record).attempt for record in records]


def _waits_in_vain(wait: Callable[..., Status], records: Records, sent: int) -> WaitTimeout:
    """Wait until so many records are sent, which is in the first half second if nothing stalls."""

    def ended() -> WaitTimeout | None:
        error = ends_in_vain(wait, timeout_s=0.5)
        return error if len(records()) >= sent else None

    found = eventually(ended, timeout_s=LIMIT_S)
    assert found is not None
    return found


def test_a_request_whose_worker_died_is_resent_at_once(
    patient: Client, worker: Worker, records: Records, at_once: AtOnce
) -> None:
    worker.live()
    handle = patient.send(b"v", key="k", headers=[("traceparent", b"00-1")])
    worker.accept(handle.request_id)
    assert ends_in_vain(handle.wait, timeout_s=0.5).state == State.ACCEPTED
    waiting = at_once(handle.wait, 20)
    worker.die()
    eventually(lambda: handle.status().attempt == 2, timeout_s=30)
    # PENDING is told before Kafka is asked, and a wait of asyncio that ends takes its resend along.
    eventually(lambda: len(records()) == 2, timeout_s=30)
    worker.tell(handle.request_id, State.SUCCEEDED)
    assert waiting.result(timeout=LIMIT_S).state is State.SUCCEEDED
    first, second = records()
    assert _attempts([first, second]) == [1, 2]
    assert decode_headers(first).deadline_at == decode_headers(second).deadline_at
    assert (second.key, second.value, second.headers[0]) == (b"k", b"v", ("traceparent", b"00-1"))


def test_a_request_that_its_worker_gave_up_is_resent_at_once(
    patient: Client, worker: Worker, records: Records
) -> None:
    handle = patient.send(b"v")
    worker.tell(handle.request_id, State.ACCEPTED, worker="")
    _waits_in_vain(handle.wait, records, 2)
    assert _attempts(records()) == [1, 2]
    assert handle.status().state is State.PENDING


def test_without_an_end_it_is_resent_after_a_while_and_then_ever_less_often(
    make_client: MakeClient, records: Records
) -> None:
    client = make_client(resend_after_s=0.2, poll_interval_s=0.02)

    def one_round() -> None:
        handle = client.send(b"v")
        with pytest.raises(WaitTimeout):
            handle.wait(timeout_s=1.8)
        mine = [one for one in records() if decode_headers(one).request_id == handle.request_id]
        gaps = _gaps_ms(mine)
        assert all(map(operator.ge, gaps, (190, 390, 790, 1590, 3190)))
        assert _attempts(mine) == list(range(1, len(mine) + 1))
        assert len({decode_headers(record).deadline_at for record in mine}) == 1
        assert 3 <= len(mine) <= 4

    holds_in_one_round(one_round, noise=(RedisUnavailable,))


def _gaps_ms(found: list[Record]) -> list[int]:
    sent_ms = [record.timestamp_ms for record in found]
    return [late - soon for soon, late in itertools.pairwise(sent_ms)]


def test_what_redis_forgot_is_submitted_again_from_the_handle_with_its_deadline(
    patient: Client, worker: Worker, records: Records
) -> None:
    handle = patient.send(b"v", deadline_s=60)
    worker.lose_all()
    assert handle.status().state is State.UNKNOWN
    assert _waits_in_vain(handle.wait, records, 2).state == State.PENDING
    assert [decode_headers(record) for record in records()] == [decode_headers(records()[0])] * 2
    assert handle.status().deadline_at == handle.deadline_at
    assert worker.store.kept_payload(handle.request_id) == handle.payload


def test_the_failure_that_it_has_reopened_is_no_end_where_redis_came_back_older(
    make_client: MakeClient, worker: Worker, records: Records
) -> None:
    hasty = make_client(resend_after_s=0.5, poll_interval_s=0.1)
    key = worker.store.request_key("r1")
    hasty.send(b"v", request_id="r1")
    worker.tell("r1", State.FAILED, code="BUSY", resend="1")
    failure = cast("dict[bytes, bytes]", worker.store.redis.hgetall(key))
    again = hasty.send(b"v", request_id="r1")
    worker.store.redis.delete(key)
    worker.store.redis.hset(key, mapping=cast("Any", failure))
    assert hasty.status("r1").state is State.FAILED
    assert again.status().state is State.UNKNOWN
    ends_in_vain(again.wait, timeout_s=0.3)
    eventually(
        lambda: ends_in_vain(again.wait, timeout_s=1) and len(records()) >= 3, timeout_s=LIMIT_S
    )
    # Nobody else sends a failure again: it does, as the attempt that Redis has forgotten.
    assert _attempts(records())[:3] == [1, 2, 2]
    assert again.status().state is State.PENDING
    worker.tell("r1", State.FAILED, code="BUSY", resend="1")
    found = again.wait(timeout_s=60)
    assert (found.state, found.attempt, found.generation) == (State.FAILED, 2, 1)


def test_an_id_alone_is_resent_from_the_kept_payload(
    patient: Client, make_client: MakeClient, worker: Worker, records: Records
) -> None:
    patient.send(b"\xff", key=b"", request_id="r1", headers=[("h", b"\x00")])
    worker.accept("r1")
    other = make_client(poll_interval_s=0.1)
    _waits_in_vain(partial(other.wait, "r1"), records, 2)
    first, second = records()
    assert (second.key, second.value, second.headers[0]) == (b"", b"\xff", ("h", b"\x00"))
    assert _attempts([first, second]) == [1, 2]


def test_a_kept_payload_that_no_client_of_ours_wrote_is_none_and_its_wait_goes_on(
    patient: Client, make_client: MakeClient, worker: Worker, records: Records
) -> None:
    patient.send(b"v", request_id="r1")
    worker.accept("r1")
    worker.store.redis.set(worker.store.payload_key("r1"), b"\xff not what a client keeps")
    ends_in_vain(partial(make_client(poll_interval_s=0.1).wait, "r1"), timeout_s=1)
    worker.tell("r1", State.SUCCEEDED)
    assert patient.wait("r1", timeout_s=LIMIT_S).state is State.SUCCEEDED
    assert _attempts(records()) == [1]


@pytest.mark.parametrize("has_status", [True, False])
def test_what_is_taken_back_while_a_wait_for_its_id_sends_it_again_is_not_sent(
    has_status: bool,
    patient: Client,
    make_client: MakeClient,
    worker: Worker,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient.send(b"v", request_id="r1")
    worker.accept("r1")
    if not has_status:
        worker.store.redis.delete(worker.store.request_key("r1"))
    other = make_client(resend_after_s=1, poll_interval_s=0.1)
    found: list[StoredPayload | None] = []
    read, read_async = StatusStore.kept_payload, AsyncStatusStore.kept_payload

    def take_back(payload: StoredPayload | None) -> StoredPayload | None:
        worker.lose_all()
        found.append(payload)
        return payload

    async def read_and_sleep(store: AsyncStatusStore, request_id: str) -> StoredPayload | None:
        return take_back(await read_async(store, request_id))

    monkeypatch.setattr(
        StatusStore, "kept_payload", lambda store, name: take_back(read(store, name))
    )
    monkeypatch.setattr(AsyncStatusStore, "kept_payload", read_and_sleep)

    def has_tried_once_more() -> bool:
        ends_in_vain(partial(other.wait, "r1"), timeout_s=0.5)
        return len(found) > 1

    eventually(has_tried_once_more, timeout_s=LIMIT_S)
    assert (found[0] is None, found[1]) == (False, None)
    assert _attempts(records()) == [1]
    assert worker.traces() == []


def test_what_another_start_of_redis_was_told_of_is_sent_by_a_wait_for_its_handle_alone(
    make_client: MakeClient, worker: Worker, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = make_client(resend_after_s=0.2, poll_interval_s=0.1)
    handle = hasty.send(b"v", request_id="r1")
    # Redis came back as it was before the client was told NotSent.
    worker.store.redis.hset(worker.store.request_key("r1"), "told_in", "another")
    tried: list[None] = []
    again = SendFlow.again

    async def note(*given: Any, **named: Any) -> None:
        await again(*given, **named)
        tried.append(None)

    monkeypatch.setattr(SendFlow, "again", note)

    def has_tried(wait: Callable[..., Status]) -> bool:
        ends_in_vain(wait, timeout_s=0.5)
        return bool(tried)

    eventually(lambda: has_tried(partial(hasty.wait, "r1")), timeout_s=LIMIT_S)
    assert (_attempts(records()), handle.status().attempt) == ([1], 1)
    tried.clear()
    eventually(lambda: has_tried(handle.wait), timeout_s=LIMIT_S)
    assert _attempts(records())[:2] == [1, 2]


def test_an_id_that_nobody_knows_and_nobody_kept_is_only_waited_for(
    patient: Client, records: Records
) -> None:
    found = ends_in_vain(partial(patient.wait, "nobody"), timeout_s=0.3)
    assert found.state == State.UNKNOWN
    assert records() == []


def test_a_wait_that_only_watches_resends_nothing(
    patient: Client, worker: Worker, records: Records
) -> None:
    handle = patient.send(b"v")
    worker.accept(handle.request_id)
    found = ends_in_vain(partial(patient.wait, handle, resend=False), timeout_s=0.3)
    assert found.state == State.LOST
    assert _attempts(records()) == [1]


def test_a_wait_goes_on_while_kafka_refuses_its_resends(
    patient: Client, make_client: MakeClient, worker: Worker, refusing: str, at_once: AtOnce
) -> None:
    patient.send(b"v", request_id="r1")
    worker.accept("r1")
    cut_off = make_client(
        kafka={"bootstrap_servers": refusing}, send_timeout_s=0.2, poll_interval_s=0.1
    )
    waiting = at_once(cut_off.wait, "r1", timeout_s=LIMIT_S)
    eventually(lambda: patient.status("r1").attempt >= 2, timeout_s=30)
    worker.tell("r1", State.SUCCEEDED)
    assert waiting.result(timeout=LIMIT_S).state is State.SUCCEEDED


def test_a_wait_whose_resends_fail_shows_that_the_request_is_lost_and_tries_again_after_a_while(
    patient: Client, make_client: MakeClient, worker: Worker, refusing: str, records: Records
) -> None:
    patient.send(b"v", request_id="r1")
    worker.accept("r1")
    cut_off = make_client(
        kafka={"bootstrap_servers": refusing},
        send_timeout_s=1,
        resend_after_s=30,
        poll_interval_s=0.05,
    )
    ends_in_vain(partial(cut_off.wait, "r1"), timeout_s=3)
    eventually(lambda: patient.status("r1").state is State.LOST, timeout_s=30)
    assert patient.status("r1").attempt == 1
    assert _attempts(records()) == [1]


def test_a_resend_that_hangs_in_kafka_does_not_hold_up_the_wait_past_its_end(
    mute: str, patient: Client, make_client: MakeClient, worker: Worker
) -> None:
    patient.send(b"v", request_id="r1")
    worker.accept("r1")
    cut_off = make_client(kafka={"bootstrap_servers": mute}, send_timeout_s=8, poll_interval_s=0.1)

    def wait() -> None:
        with pytest.raises(WaitTimeout):
            cut_off.wait("r1", timeout_s=0.5)

    in_time(wait, limit_s=4, noise=(RedisUnavailable,))


def test_a_resend_that_another_payload_forbids_ends_the_wait(
    patient: Client, worker: Worker
) -> None:
    handle = patient.send(b"v", request_id="r1")
    worker.accept("r1")
    other = Handle("r1", patient, replace(handle.payload, value=b"w"), handle.deadline_at)
    with pytest.raises(PayloadMismatch):
        other.wait(timeout_s=20)


def test_a_resend_that_fails_for_certain_leaves_what_is_kept(
    patient: Client, make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    handle = patient.send(b"v")
    worker.store.redis.delete(worker.store.request_key(handle.request_id))
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=2)
    with pytest.raises(SendUnknown):
        cut_off.resend(handle.request_id, handle.payload, known=handle.status())
    assert worker.store.kept_payload(handle.request_id) == handle.payload
    assert worker.looked_at(handle.request_id) is not None
