"""A relay on real servers: what is committed reaches Kafka, in order, as it was written."""

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import Connection, Engine, delete

from feedback.clock import epoch_ms
from feedback.kafka.kafka_python.ordered_sender import KafkaPythonOrderedSender
from feedback.kafka.send_errors import RecordNotSent, TopicUnknown
from feedback.records.envelope import Envelope, Record, decode_headers, payload_sha256
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import StatusWrite
from producer_client import Client
from producer_client.outbox import cooldown
from producer_client.outbox.parked import OutboxDesk
from producer_client.outbox.tables import RowState, row
from tests.eventually import eventually
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.records import records_of
from tests.producer_client.waits import ends_in_vain
from tests.rounds import in_time

Records = Callable[[], list[Record]]
LIMIT_S = 40.0


def settled(rows: Rows, **wanted: int) -> None:
    """Return when so many rows stand so: `settled(rows, SENT=3, PARKED=1)`."""

    def are_so() -> bool:
        states = [str(one["state"]) for one in rows()]
        return all(states.count(state) == count for state, count in wanted.items())

    eventually(are_so, timeout_s=LIMIT_S, what=f"{wanted} of {rows()}")


def test_a_committed_request_is_sent_as_it_was_written_and_known_to_redis(
    settings: Settings, engine: Engine, rows: Rows, records: Records
) -> None:
    headers = [("traceparent", b"00-ab-cd-01"), ("bytes", b"\x00\xff"), ("bytes", b"")]
    with Client(settings) as client, relaying(settings):
        with engine.begin() as connection:
            handle = client.send(
                {"amount": 5}, key="card-1", request_id="a", headers=headers, connection=connection
            )
        settled(rows, SENT=1)
        assert handle.status().state is State.PENDING
        assert client.store.kept_payload("a") == handle.payload
        assert client.store.redis.zscore(client.store.deadlines_key, "a") is not None
    (record,) = records()
    (sent,) = rows()
    assert (record.key, record.value) == (b"card-1", b'{"amount":5}')
    assert record.headers[:3] == tuple(headers)
    assert decode_headers(record) == Envelope("a", 1, handle.deadline_at)
    assert (sent["partition"], sent["offset"]) == (record.partition, record.offset)


def test_requests_of_a_key_are_sent_in_the_order_of_their_commits(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client, relaying(settings), relaying(settings):
        for number in range(300):
            client.send(b"%d" % number, key=b"%d" % (number % 7), connection=user)
            if number % 11 == 0:
                user.commit()
        user.commit()
        settled(rows, SENT=300)
    by_key = defaultdict(list)
    for record in records():
        by_key[record.key].append(int(record.value or b""))
    assert sum(map(len, by_key.values())) == 300
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_a_relay_that_starts_later_finds_what_waits_and_prunes_what_was_sent(
    make_settings: MakeSettings, outbox_url: str, user: Connection, rows: Rows, records: Records
) -> None:
    settings = make_settings(outbox={"url": outbox_url, "keep_s": 0, "notify": False})
    with Client(settings) as client:
        client.send(b"waits", connection=user)
        user.commit()
        with relaying(settings):
            eventually(lambda: not rows(), timeout_s=LIMIT_S)
            client.send(b"found by polling", connection=user)
            user.commit()
            eventually(lambda: len(records()) == 2, timeout_s=LIMIT_S)


@pytest.fixture
def narrow(settings: Settings, group: str) -> str:
    """Return a topic that takes small records only."""
    name = f"narrow-{group}"
    with KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers) as admin:
        topic = NewTopic(name, 1, 1, topic_configs={"max.message.bytes": "2000"})
        admin.create_topics([topic])
        admin.wait_for_topics([name])
    return name


def test_what_kafka_can_never_take_is_parked_and_in_nobodys_way(
    settings: Settings, user: Connection, rows: Rows, records: Records, narrow: str
) -> None:
    with Client(settings) as client, relaying(settings):
        for number in range(20):
            client.send(b"%d" % number, key="k", topic=narrow, connection=user)
            if number == 9:
                client.send(b"x" * 5000, key="k", request_id="large", topic=narrow, connection=user)
        client.send(b"v", topic="no-such-topic", request_id="lost", connection=user)
        client.send(b"v", request_id="goes", connection=user)
        user.commit()
        settled(rows, SENT=21, PARKED=2)
        reasons = {one["request_id"]: one["reason"] for one in rows() if one["reason"]}
        assert reasons["large"].startswith("REFUSED: Kafka refused the record: MessageSizeTooLarge")
        assert reasons["lost"].startswith("UNKNOWN_TOPIC: ")
    written = [one.value for one in records_of(settings.kafka.bootstrap_servers, narrow)]
    assert written == [b"%d" % number for number in range(20)]
    assert [decode_headers(one).request_id for one in records()] == ["goes"]


def test_all_that_waits_for_a_topic_that_kafka_does_not_know_is_parked_at_once(
    settings: Settings, user: Connection, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[Collection[str]] = []
    look_up = KafkaPythonOrderedSender.look_up

    def noted(sender: KafkaPythonOrderedSender, names: Collection[str]) -> Any:
        looked_up.append(names)
        return look_up(sender, names)

    monkeypatch.setattr(KafkaPythonOrderedSender, "look_up", noted)
    # After its first rest the topic has been unknown for long enough.
    rest_s = settings.outbox.unknown_topic_s
    monkeypatch.setattr(cooldown, "REST_S", (rest_s, rest_s))
    with Client(settings) as client, relaying(settings):
        for number in range(4000):
            client.send(b"v", key=b"%d" % number, topic="no-such-topic", connection=user)
        client.send(b"v", request_id="goes", connection=user)
        user.commit()
        settled(rows, SENT=1)
        settled(rows, PARKED=4000)
    # Asked anew for every 500 of them it would be eight times and more.
    asked = [names for names in looked_up if "no-such-topic" in names]
    assert len(asked) == 2
    assert {one["reason"] for one in rows() if one["state"] == "PARKED"} == {
        "UNKNOWN_TOPIC: Kafka knows no topic no-such-topic"
    }


def test_topics_that_are_unknown_hold_up_nobody_for_longer_than_one_answer(
    settings: Settings, topic: Callable[..., str]
) -> None:
    there = topic(1)
    sender = KafkaPythonOrderedSender(settings.kafka, send_timeout_s=10, block_s=5)
    try:
        assert sender.look_up([there]) == {}
        for names in ([f"no-{n}" for n in range(20)], ["no-1", "no-2"]):
            refused = in_time(partial(sender.look_up, [there, *names]), limit_s=4)
            assert {name: type(why) for name, why in refused.items()} == dict.fromkeys(
                names, TopicUnknown
            )
        assert list(map(type, sender.look_up(["no topic"]).values())) == [RecordNotSent]
        late = topic(1, name=f"late-{settings.kafka.group}")
        assert sender.look_up([late]) == {}
    finally:
        sender.close()


def test_a_topic_that_others_have_seen_to_is_away_no_more(
    settings: Settings, user: Connection, rows: Rows
) -> None:
    outbox = settings.outbox.model_copy(update={"unknown_topic_s": 60})
    patient = settings.model_copy(update={"outbox": outbox})
    with Client(settings) as client, relaying(patient) as relay:
        client.send(b"v", topic="no-such-topic", connection=user)
        user.commit()
        eventually(lambda: relay.missing == "no-such-topic", timeout_s=LIMIT_S)
        user.execute(delete(row))
        user.commit()
        eventually(lambda: relay.missing is None, timeout_s=LIMIT_S)


def test_many_that_are_refused_one_by_one_are_parked_though_that_outlasts_a_lease(
    settings: Settings, user: Connection, rows: Rows, narrow: str
) -> None:
    # Two: what one does not hold any more the other would begin anew, and neither would end it.
    outbox = settings.outbox.model_copy(update={"lease_s": 0.5})
    short = settings.model_copy(update={"outbox": outbox})
    with Client(short) as client, relaying(short), relaying(short):
        for number in range(30):
            client.send(b"x" * 5000, key=f"{number}", topic=narrow, connection=user)
        user.commit()
        settled(rows, PARKED=30)


def test_an_id_that_another_payload_has_is_parked(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client, relaying(settings):
        client.send(b"first", request_id="a")
        client.send(b"other", request_id="a", connection=user)
        client.send(b"first", request_id="a", connection=user)
        user.commit()
        settled(rows, SENT=1, PARKED=1)
        assert rows()[0]["reason"].startswith("PAYLOAD_MISMATCH")
    assert {one.value for one in records()} == {b"first"}


def test_what_has_ended_is_not_sent_again_and_what_may_be_reopened_is(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client:

        def tell(request_id: str, state: State, **fields: str) -> None:
            known = client.store.read(request_id)
            digest = known.payload_sha256 or ""
            write = StatusWrite(request_id, state, known.attempt, 1, digest, fields)
            assert client.store.write([write]) == [None]

        for name in ("done", "failed"):
            client.send(name.encode(), request_id=name)
        tell("done", State.SUCCEEDED)
        tell("failed", State.FAILED, code="BUSY", resend="1")
        with relaying(settings):
            client.send(b"done", request_id="done", connection=user)
            client.send(b"failed", request_id="failed", deadline_s=60, connection=user)
            user.commit()
            settled(rows, SENT=2)
        sent = [decode_headers(one)[:2] for one in records()]
        assert sent == [("done", 1), ("failed", 1), ("failed", 2)]
        read_by = [
            decode_headers(records()[-1], group=one).reopens
            for one in (settings.kafka.group, "another")
        ]
        assert read_by == [1, 0]
        assert rows()[0]["offset"] is None
        # Once more by a relay that does not know that it was sent: it is this row's own end.
        tell("failed", State.FAILED, code="BUSY", resend="1")


def test_a_row_that_was_written_before_a_failure_was_told_does_not_reopen_it(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client:
        client.send(b"v", request_id="a")
        client.send(b"v", request_id="a", deadline_s=60, connection=user)
        user.commit()
        known = client.store.read("a")
        fields = {"code": "BUSY", "resend": "1"}
        told = StatusWrite("a", State.FAILED, 1, 1, known.payload_sha256 or "", fields)
        assert client.store.write([told]) == [None]
        # Its caller may have asked for the same under another id by now.
        assert client.wait("a", timeout_s=5).state is State.FAILED
        with relaying(settings):
            settled(rows, SENT=1)
        assert client.status("a").state is State.FAILED
    assert len(records()) == 1


def test_no_handle_shows_the_failure_that_its_row_asks_to_run_again(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client:
        digest = payload_sha256(None, b"v")

        def fail(attempt: int) -> int:
            fields = {"code": "BUSY", "resend": "1"}
            told = StatusWrite("a", State.FAILED, attempt, attempt, digest, fields)
            assert client.store.write([told]) == [None]
            return client.status("a").updated_at or 0

        first = client.send(b"v", request_id="a")
        told_at = fail(1)
        eventually(lambda: epoch_ms() > told_at)
        handle = client.send(b"v", request_id="a", connection=user)
        user.commit()
        ends_in_vain(handle.wait, timeout_s=0.3)
        assert handle.status().state is State.UNKNOWN
        assert first.wait(0.3).state is client.status("a").state is State.FAILED
        assert len(records()) == 1
        with relaying(settings):
            settled(rows, SENT=1)
        assert [decode_headers(one)[1::2] for one in records()] == [(1, None), (2, 1)]
        assert handle.status().state is State.PENDING
        fail(2)
        assert (handle.wait(60).attempt, handle.status().state) == (2, State.FAILED)


def test_what_was_tried_again_meanwhile_goes_as_that_attempt(
    settings: Settings, user: Connection, rows: Rows, records: Records
) -> None:
    with Client(settings) as client:
        handle = client.send(b"v", request_id="a", connection=user)
        user.commit()
        digest = payload_sha256(None, b"v")
        pending = StatusWrite("a", State.PENDING, 3, 0, digest, {}, handle.payload)
        assert client.store.write([pending]) == [None]
        with relaying(settings):
            settled(rows, SENT=1)
    # The failure of what runs meanwhile is told before this record is read, and is over then.
    assert [decode_headers(one)[1::2] for one in records()] == [(3, 0)]


def test_parked_rows_are_tried_again_when_somebody_says_so(
    settings: Settings, user: Connection, rows: Rows, topic: Callable[..., str], group: str
) -> None:
    desk = OutboxDesk(settings.outbox.url, group=settings.kafka.group, timeout_s=10)
    with Client(settings) as client, relaying(settings):
        client.send(b"v", topic=f"later-{group}", request_id="a", connection=user)
        user.commit()
        settled(rows, PARKED=1)
        (parked,) = desk.rows(RowState.PARKED, limit=10)
        assert parked.request_id == "a"
        topic(1, name=f"later-{group}")
        assert desk.retry(["other"]) == 0
        assert desk.retry(["a"]) == 1
        settled(rows, SENT=1)
    assert desk.rows(RowState.PARKED, limit=10) == []
    desk.close()
