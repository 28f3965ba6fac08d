"""What stands in the resender's way: strays, topics that are away, numbers, clocks, faults."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import NotSent
from feedback.records.envelope import Record
from feedback.records.stored_payload import StoredPayload
from feedback.redis.deadlines import Deadlines
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import Status, StatusWrite
from producer_client import Client, Submission
from producer_client.resender.payloads import Found, PayloadFinder
from producer_client.resender.resender import Resender
from producer_client.sending.resending import ResendReason
from tests.eventually import eventually
from tests.producer_client.acting import WORKER_ID, Worker
from tests.producer_client.conftest import MakeClient, MakeSettings
from tests.producer_client.programs import Run
from tests.producer_client.resenders import attempts_of, look_now, running
from tests.stack.clock import clock_off_by
from tests.standstill import standing_still

pytestmark = pytest.mark.waits

Records = Callable[[], list[Record]]
LIMIT_S = 60.0
# Time alone resends nothing in these tests.
PATIENT_S = 300.0


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    """Return the settings of a resender that acts on what it finds lost, and else waits."""
    return make_settings(resend_after_s=PATIENT_S, send_timeout_s=5.0)


def test_strays_in_the_set_and_statuses_that_are_none_stop_nothing(
    client: Client, worker: Worker, settings: Settings
) -> None:
    store = worker.store
    store.redis.zadd(store.deadlines_key, {b"\xff": 1, b"no id": 2, b"unknown": 3})
    store.redis.set(store.request_key("text"), "no hash")
    store.redis.hset(store.request_key("odd"), mapping={"status": "DANCING", "attempt": "many"})
    for one in ("text", "odd"):
        look_now(store, one)
    request_id = client.send(b"v").request_id
    worker.accept(request_id)
    with running(settings) as resender:
        assert resender.sends(1)[0].request_id == request_id
        eventually(lambda: worker.looked_at("unknown") is None, timeout_s=LIMIT_S)
        for one in ("text", "odd"):
            eventually(lambda: (worker.looked_at(one) or 0) > epoch_ms(), timeout_s=LIMIT_S)  # noqa: B023
    left = cast("list[bytes]", store.redis.zrange(store.deadlines_key, 0, -1))
    assert {one.decode() for one in left} == {"text", "odd", request_id}


def test_what_was_taken_back_while_a_resender_slept_is_not_sent(
    client: Client,
    make_client: MakeClient,
    worker: Worker,
    records: Records,
    settings: Settings,
    refusing: str,
    at_once: Callable[..., Future[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds = PayloadFinder.of
    asleep, awake = threading.Event(), threading.Event()

    def sleeps(self: PayloadFinder, statuses: Sequence[Status]) -> list[Found]:
        found = finds(self, statuses)
        asleep.set()
        assert awake.wait(LIMIT_S)
        return found

    other = client.send(b"v").request_id
    cut_off = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=6)
    monkeypatch.setattr(PayloadFinder, "of", sleeps)
    with running(settings) as resender:
        failing = at_once(cut_off.send, b"v", request_id="r1")
        eventually(lambda: client.status("r1").state is State.PENDING, timeout_s=LIMIT_S)
        worker.store.redis.hset(worker.store.request_key("r1"), "updated_at", "1")
        look_now(worker.store, "r1")
        assert asleep.wait(LIMIT_S)
        # Its lease ends, and another resender settles the request without sending it.
        deadlines = Deadlines(worker.store)
        look_now(worker.store, "r1")
        deadlines.settle(deadlines.take(10, lease_s=30), {"r1": PATIENT_S})
        with pytest.raises(NotSent):
            failing.result(LIMIT_S)
        worker.accept(other)
        awake.set()
        assert [one.request_id for one in resender.sends(1)] == [other]
    assert attempts_of(records()) == {other: [1, 2]}
    assert client.status("r1").state is State.UNKNOWN


def test_a_topic_that_does_not_exist_holds_up_no_other(
    client: Client, worker: Worker, make_settings: MakeSettings, group: str
) -> None:
    settings = make_settings(resend_after_s=PATIENT_S, send_timeout_s=3.0)
    nowhere = [f"nowhere-{n}-{group}" for n in range(4)]
    request_id = client.send(b"v").request_id
    for n, topic in enumerate(nowhere):
        away = f"away{n}"
        client.send(b"v", request_id=away)
        payload = StoredPayload(topic, None, b"v")
        worker.store.redis.set(worker.store.payload_key(away), payload.encode())
        worker.store.redis.hset(worker.store.request_key(away), "topic", topic)
        worker.accept(away)
    with running(settings) as resender:
        # All of them have been tried before, and block now and again.
        eventually(lambda: client.status("away3").attempt > 1, timeout_s=LIMIT_S)
        worker.accept(request_id)
        with standing_still() as stood:
            began_s = monotonic_s()
            resender.sends(1)
            took_s = monotonic_s() - began_s
        assert took_s < 12 + stood.total_s
        assert resender.ids() == [request_id]


@pytest.mark.long
def test_ten_thousand_that_are_lost_at_once_are_each_sent_once(
    client: Client, worker: Worker, records: Records, make_settings: MakeSettings
) -> None:
    # On a slow machine an acknowledgement may take long; one that comes too late is sent again.
    settings = make_settings(resend_after_s=PATIENT_S, send_timeout_s=30.0)
    count = 10_000
    results = client.send_many(Submission(b"%d" % n) for n in range(count))
    ids = [result.request_id for result in results]
    accepted = [
        StatusWrite(
            one.request_id,
            State.ACCEPTED,
            1,
            0,
            one.payload_sha256 or "",
            {"worker": WORKER_ID},
        )
        for one in worker.store.read_many(ids)
    ]
    worker.store.write(accepted)
    with running(settings) as resender, running(settings) as other:
        eventually(
            lambda: len(resender.resent) + len(other.resent) >= count,
            timeout_s=90,
            what="all of them sent",
        )
    assert sorted(resender.ids() + other.ids()) == sorted(ids)
    attempts = attempts_of(records())
    assert len(attempts) == count
    assert all(found == [1, 2] for found in attempts.values())


@pytest.mark.parametrize("off_s", [300, -300])
def test_a_client_whose_clock_is_minutes_off_is_served_all_the_same(
    run: Run, client: Client, worker: Worker, make_settings: MakeSettings, off_s: int
) -> None:
    assert run("send", "--text", "v", "--id", "r1", **clock_off_by(off_s)).code == 0
    look_at = worker.looked_at("r1")
    assert look_at is not None
    assert abs(look_at - epoch_ms() - off_s * 1000) < 100_000
    worker.accept("r1")
    with running(make_settings(resend_after_s=60.0)) as resender:
        assert resender.sends(1)[0].why is ResendReason.LOST
        # The next look is by Redis' clock, whatever the client's says.
        settled = eventually(
            lambda: (at := worker.looked_at("r1") or 0) > epoch_ms() + 30_000 and at,
            timeout_s=LIMIT_S,
        )
        assert settled < epoch_ms() + 130_000
    assert [one.attempt for one in resender.resent] == [2]


def test_a_status_told_by_a_client_whose_clock_is_behind_is_resent_no_sooner(
    run: Run, worker: Worker, make_settings: MakeSettings
) -> None:
    assert run("send", "--text", "v", "--id", "r1", **clock_off_by(-300)).code == 0
    with running(make_settings(resend_after_s=60.0)) as resender:
        eventually(lambda: (worker.looked_at("r1") or 0) > epoch_ms() + 30_000, timeout_s=LIMIT_S)
        assert resender.resent == []


def test_a_look_far_in_the_future_by_a_clock_that_is_ahead_is_brought_back(
    client: Client, worker: Worker, make_settings: MakeSettings
) -> None:
    request_id = client.send(b"v").request_id
    look_now(worker.store, request_id, in_s=1_000_000)
    with running(make_settings(resend_after_s=5.0)):
        eventually(
            lambda: (worker.looked_at(request_id) or 0) < epoch_ms() + 100_000, timeout_s=LIMIT_S
        )


def test_a_fault_of_a_thread_ends_it_and_is_told(
    client: Client, worker: Worker, settings: Settings
) -> None:
    def full(resent: object) -> None:
        raise OSError("the disk is full")

    worker.accept(client.send(b"v").request_id)
    resender = Resender(settings, on_resent=full)
    resender.start()
    assert resender.wait(LIMIT_S)
    with pytest.raises(OSError, match="the disk is full"):
        resender.close()
