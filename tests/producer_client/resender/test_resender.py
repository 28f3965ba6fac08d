"""The resender on real servers: what it sends again, when, and what it leaves alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from feedback.clock import epoch_ms
from feedback.records.envelope import FirstPlace, Record, decode_headers
from feedback.settings.settings import Settings
from feedback.status import RefusalReason, State
from feedback.statuses import StatusWrite
from producer_client import Client
from producer_client.sending.resending import ResendReason
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.resenders import attempts_of, look_now, running

Records = Callable[[], list[Record]]
LIMIT_S = 60.0
# Time alone resends nothing in these tests.
PATIENT_S = 300.0


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    """Return the settings of a resender that acts on what it finds lost, and else waits."""
    return make_settings(resend_after_s=PATIENT_S, send_timeout_s=5.0)


def test_a_request_whose_worker_died_is_sent_again_as_it_was_soon_after(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    worker.live()
    handle = client.send(b"\xff", key=b"k", headers=[("traceparent", b"00-1")])
    worker.accept(handle.request_id)
    with running(settings) as resender:
        worker.die()
        # A scan a second; by its time it would be sent again after minutes.
        (one,) = resender.sends(1)
    assert (one.request_id, one.attempt, one.why) == (handle.request_id, 2, ResendReason.LOST)
    first, second = records()
    assert (second.key, second.value) == (first.key, first.value) == (b"k", b"\xff")
    assert second.headers[0] == ("traceparent", b"00-1")
    again = decode_headers(second)._replace(attempt=1, reopens=None)
    assert again == decode_headers(first)
    status = handle.status()
    assert (status.state, status.attempt) == (State.PENDING, 2)
    assert worker.store.kept_payload(handle.request_id) == handle.payload


@pytest.mark.parametrize(
    ("told", "first"),
    [("", "/3/17"), ("/3/5/-1", "/3/5/-1"), ("/3/5", "/3/5")],
)
def test_a_resend_says_which_record_it_repeats_and_so_does_the_next_one(
    client: Client,
    worker: Worker,
    records: Records,
    settings: Settings,
    told: str,
    first: str,
) -> None:
    handle = client.send(b"v")
    topic = handle.payload.topic
    worker.tell(
        handle.request_id,
        State.ACCEPTED,
        worker="",
        partition="3",
        offset="17",
        first=told and topic + told,
    )
    with running(settings) as resender:
        resender.sends(1)
        # What the worker that reads it says, and dies.
        worker.tell(
            handle.request_id,
            State.ACCEPTED,
            worker="",
            partition="3",
            offset="18",
            first=topic + first,
        )
        resender.sends(2)
    repeated = FirstPlace.read(topic + first)
    assert [decode_headers(one).first for one in records()] == [None, repeated, repeated]


def test_what_a_live_worker_has_or_what_is_new_is_left_alone(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    worker.live()
    held, new, lost = (client.send(b"v").request_id for _ in range(3))
    worker.accept(held)
    worker.tell(lost, State.ACCEPTED, worker="")
    for one in (held, new):
        look_now(worker.store, one)
    with running(settings) as resender:
        resender.sends(1)
        eventually(lambda: (worker.looked_at(new) or 0) > epoch_ms(), timeout_s=LIMIT_S)
        eventually(lambda: (worker.looked_at(held) or 0) > epoch_ms(), timeout_s=LIMIT_S)
        assert resender.ids() == [lost]
    assert attempts_of(records()) == {held: [1], new: [1], lost: [1, 2]}


def test_what_is_silent_is_sent_again_and_again_until_it_ends(
    client: Client, worker: Worker, records: Records, make_settings: MakeSettings
) -> None:
    request_id = client.send(b"v").request_id
    with running(make_settings(resend_after_s=0.2)) as resender:
        look_now(worker.store, request_id)
        sent = resender.sends(3)
        worker.tell(request_id, State.SUCCEEDED)
        eventually(lambda: worker.looked_at(request_id) is None, timeout_s=LIMIT_S)
    assert [(one.attempt, one.why) for one in sent[:3]] == [
        (n, ResendReason.SILENT) for n in (2, 3, 4)
    ]
    assert attempts_of(records())[request_id][:4] == [1, 2, 3, 4]
    assert len({decode_headers(record).deadline_at for record in records()}) == 1


def test_what_was_told_as_over_is_left_alone_also_where_a_resend_may_help(
    client: Client, worker: Worker, records: Records, make_settings: MakeSettings
) -> None:
    failed, silent = "failed", "silent"
    client.send(b"v", request_id=failed)
    worker.tell(failed, State.FAILED, code="BUSY", resend="1")
    assert worker.looked_at(failed) is None
    look_now(worker.store, failed)
    client.send(b"v", request_id=silent)
    look_now(worker.store, silent)
    with running(make_settings(resend_after_s=0.2)) as resender:
        eventually(lambda: worker.looked_at(failed) is None, timeout_s=LIMIT_S)
        resender.sends(2)
        assert set(resender.ids()) == {silent}
    assert client.status(failed).state is State.FAILED
    # Whoever holds it can still have it sent again.
    client.send(b"v", request_id=failed)
    assert attempts_of(records())[failed] == [1, 2]
    assert worker.looked_at(failed) is not None


def test_a_resend_that_was_on_its_way_begins_nothing_that_was_told_as_over(
    client: Client, worker: Worker, records: Records
) -> None:
    handle = client.send(b"v", request_id="r")
    before = handle.status()
    client.resend("r", handle.payload, known=before)
    worker.tell("r", State.FAILED, code="BUSY", resend="1")
    second = decode_headers(records()[-1])
    assert (second.attempt, second.reopens) == (2, 0)
    late = StatusWrite("r", State.ACCEPTED, 3, 0, before.payload_sha256 or "", reopens=0)
    (refused,) = worker.store.write([late])
    assert refused is not None and refused.reason is RefusalReason.GENERATION
    # What its sender had not seen is sent by nobody.
    client.resend("r", handle.payload, known=replace(before, attempt=9))
    assert (client.status("r").state, len(records())) == (State.FAILED, 2)


def test_who_was_told_of_a_failure_has_it_sent_again_and_the_resender_sees_it_through(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    client.send(b"v", request_id="r")
    worker.tell("r", State.FAILED, code="BUSY", resend="1")
    client.send(b"v", request_id="r")
    worker.tell("r", State.ACCEPTED, worker="")
    with running(settings) as resender:
        resender.sends(1)
    sent = [decode_headers(record) for record in records()]
    assert [(one.attempt, one.reopens) for one in sent] == [(1, None), (2, 1), (3, 1)]


def test_an_id_that_redis_forgot_is_sent_from_the_kept_payload_or_forgotten(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    for one in ("kept", "nothing"):
        client.send(one.encode(), request_id=one)
        worker.store.redis.delete(worker.store.request_key(one))
        look_now(worker.store, one)
    worker.store.redis.delete(worker.store.payload_key("nothing"))
    with running(settings) as resender:
        resender.sends(1)
        eventually(lambda: worker.looked_at("nothing") is None, timeout_s=LIMIT_S)
        assert resender.ids() == ["kept"]
    assert records()[-1].value == b"kept"
    status = client.status("kept")
    assert (status.state, status.attempt) == (State.PENDING, 1)
    assert worker.store.kept_payload("kept") is not None


def test_what_is_overdue_and_unfinished_is_sent_until_it_ends(
    client: Client, worker: Worker, make_settings: MakeSettings
) -> None:
    request_id = client.send(b"v", deadline_s=0.01).request_id
    worker.tell(request_id, State.RUNNING)
    look_now(worker.store, request_id)
    with running(make_settings(resend_after_s=0.2)) as resender:
        sent = resender.sends(3)
        worker.tell(request_id, State.EXPIRED)
        eventually(lambda: worker.looked_at(request_id) is None, timeout_s=LIMIT_S)
    assert {one.why for one in sent} == {ResendReason.OVERDUE}
    assert client.status(request_id).state is State.EXPIRED
