"""The resender where no payload was kept, or not the right one: the record itself is read again."""

from collections.abc import Callable

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from feedback.clock import epoch_ms
from feedback.records.envelope import Record, decode_headers, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import DISOWNED, State
from feedback.statuses import StatusWrite
from producer_client import Client
from producer_client.resender import payloads, resender
from producer_client.resender.resender import Resender
from tests.eventually import eventually
from tests.producer_client.acting import WORKER_ID, Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.resenders import look_now, running

Records = Callable[[], list[Record]]
LIMIT_S = 60.0
# Time alone resends nothing in these tests.
PATIENT_S = 300.0


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    """Return the settings of a resender that acts on what it finds lost, and else waits."""
    return make_settings(resend_after_s=PATIENT_S, send_timeout_s=5.0)


def _foreign(settings: Settings, store: StatusStore, request_id: str | None) -> str:
    """Send a record as another language does, and accept it as a worker that died since."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers)
    named = [] if request_id is None else [("onceward-request-id", request_id.encode())]
    headers = [("own", b"\x00"), *named]
    try:
        stored = producer.send(
            settings.client.topic, key=b"k", value=b"v", headers=headers, partition=0
        ).get(timeout=60)
    finally:
        producer.close()
    coordinates = f"{stored.topic}-0-{stored.offset}-{stored.timestamp}"
    accepted = StatusWrite(
        request_id=request_id or coordinates,
        state=State.ACCEPTED,
        attempt=1,
        generation=0,
        payload_sha256=payload_sha256(b"k", b"v"),
        fields={
            "worker": WORKER_ID,
            "topic": stored.topic,
            "partition": "0",
            "offset": str(stored.offset),
            "deadline_at": str(epoch_ms() + 3_600_000),
        },
    )
    assert store.write([accepted], look_at=epoch_ms() + 300_000) == [None]
    return accepted.request_id


def test_without_a_kept_payload_the_record_itself_is_sent_again_with_its_id(
    worker: Worker, records: Records, settings: Settings
) -> None:
    ids = [_foreign(settings, worker.store, one) for one in ("named", None)]
    with running(settings) as at_work:
        at_work.sends(2)
    again = records()[2:]
    assert [decode_headers(record).request_id for record in again] == ids
    assert [decode_headers(record).attempt for record in again] == [2, 2]
    for record in again:
        assert (record.key, record.value, record.headers[0]) == (b"k", b"v", ("own", b"\x00"))
    assert worker.store.kept_payload(ids[0]) is None


def test_one_pass_that_could_not_read_all_records_says_so(
    worker: Worker, records: Records, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _foreign(settings, worker.store, "named")
    with monkeypatch.context() as patch:
        # No time is left to read any; nor is this a server that is away.
        patch.setattr(payloads, "READ_S", 0.0)
        patch.setattr(resender, "ONCE_LIMIT_S", 1.0)
        assert not _once(settings)
    assert len(records()) == 1
    look_now(worker.store, "named")
    assert _once(settings)
    assert len(records()) == 2


def _once(settings: Settings) -> bool:
    one = Resender(settings)
    try:
        return one.once()
    finally:
        one.close()


def _delete_records(settings: Settings) -> None:
    assert settings.client.topic is not None
    with KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(settings.client.topic, 0): -1})


def _end_deadline(worker: Worker, request_id: str) -> None:
    key = worker.store.request_key(request_id)
    worker.store.redis.hset(key, mapping={"deadline_at": "1000", "updated_at": "1000"})


def test_a_request_whose_record_is_gone_fails_if_its_worker_gave_it_up_and_is_left_if_claimed(
    worker: Worker, records: Records, settings: Settings
) -> None:
    lost, claimed = (_foreign(settings, worker.store, one) for one in ("lost", "claimed"))
    worker.tell(claimed, State.RUNNING)
    worker.give_up(lost)
    _delete_records(settings)
    aged = epoch_ms() - int(PATIENT_S * 2000)
    worker.store.redis.hset(worker.store.request_key(claimed), "updated_at", str(aged))
    look_now(worker.store, claimed)
    with running(settings) as at_work:
        eventually(lambda: worker.store.read(lost).state is State.FAILED, timeout_s=LIMIT_S)
        eventually(lambda: (worker.looked_at(claimed) or 0) > epoch_ms(), timeout_s=LIMIT_S)
        assert at_work.resent == []
    status = worker.store.read(lost)
    assert (status.code, status.resend, status.generation) == ("PAYLOAD_GONE", False, 0)
    assert worker.looked_at(lost) is None
    assert worker.store.read(claimed).state is State.RUNNING


def test_a_worker_that_is_cut_off_from_redis_alone_keeps_its_requests_until_long_past_the_deadline(
    worker: Worker, settings: Settings
) -> None:
    cut_off = _foreign(settings, worker.store, "cut-off")
    _delete_records(settings)
    with running(settings):
        # Looked at, and put off: its worker may run it, which read it before.
        later_ms = epoch_ms() + PATIENT_S * 1000
        eventually(lambda: (worker.looked_at(cut_off) or 0) > later_ms, timeout_s=LIMIT_S)
        assert worker.store.read(cut_off).state is State.LOST
        _end_deadline(worker, cut_off)
        look_now(worker.store, cut_off)
        eventually(lambda: worker.store.read(cut_off).state is State.FAILED, timeout_s=LIMIT_S)
    assert worker.store.read(cut_off).code == "PAYLOAD_GONE"


def test_what_a_worker_gave_up_beside_a_resend_may_be_anothers_however_long_past_the_deadline(
    worker: Worker, settings: Settings
) -> None:
    request_id = _foreign(settings, worker.store, "disowned")
    _delete_records(settings)
    key = worker.store.request_key(request_id)
    worker.store.redis.hset(key, "worker", WORKER_ID + DISOWNED)
    _end_deadline(worker, request_id)
    look_now(worker.store, request_id)
    with running(settings):
        later_ms = epoch_ms() + PATIENT_S * 1000
        eventually(lambda: (worker.looked_at(request_id) or 0) > later_ms, timeout_s=LIMIT_S)
        assert worker.store.read(request_id).state is State.LOST


def test_what_a_living_worker_has_accepted_is_its_own_though_the_record_is_gone_and_long_overdue(
    worker: Worker, settings: Settings
) -> None:
    worker.live()
    request_id = _foreign(settings, worker.store, "held")
    _delete_records(settings)
    worker.store.redis.persist(worker.store.worker_key(WORKER_ID))
    _end_deadline(worker, request_id)
    look_now(worker.store, request_id)
    with running(settings):
        later_ms = epoch_ms() + 600_000
        eventually(lambda: (worker.looked_at(request_id) or 0) > later_ms, timeout_s=LIMIT_S)
        assert worker.store.read(request_id).state is State.ACCEPTED
        worker.die()
        eventually(lambda: worker.store.read(request_id).state is State.FAILED, timeout_s=LIMIT_S)


def test_another_record_at_the_same_place_is_not_sent_in_its_stead(
    worker: Worker, records: Records, settings: Settings
) -> None:
    mine = _foreign(settings, worker.store, "mine")
    _foreign(settings, worker.store, "other")
    offset = worker.store.read("other").offset
    worker.store.redis.hset(worker.store.request_key(mine), "offset", str(offset))
    worker.give_up(mine)
    with running(settings) as at_work:
        at_work.sends(1)
        eventually(lambda: worker.store.read(mine).state is State.FAILED, timeout_s=LIMIT_S)
        assert at_work.ids() == ["other"]


def test_a_kept_payload_that_is_not_the_requests_own_is_not_sent(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    client.send(b"v", request_id="r1")
    wrong = StoredPayload(settings.client.topic or "", None, b"another").encode()
    for one, raw in (("r1", wrong), ("r2", b"garbage")):
        client.send(b"v", request_id=one)
        worker.give_up(one)
        worker.store.redis.set(worker.store.payload_key(one), raw)
    with running(settings):
        for one in ("r1", "r2"):
            failed = eventually(
                lambda: (s := client.status(one)).state is State.FAILED and s,  # noqa: B023
                timeout_s=LIMIT_S,
            )
            assert failed
            assert failed.code == "PAYLOAD_GONE"
    assert {record.value for record in records()} == {b"v"}
