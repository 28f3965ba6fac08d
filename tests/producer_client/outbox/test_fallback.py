"""Kafka first, else the outbox: the caller has its handle in time, whatever is away."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from feedback.clock import monotonic_s
from feedback.envelope import Record, decode_headers
from feedback.errors import InvalidMessage, NotSent, PayloadMismatch, SendUnknown
from feedback.kept import KeptPayload
from feedback.settings import Settings
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client, SendResult, Submission
from producer_client.client import ClientClosed
from producer_client.outbox import OutboxForbidden, OutboxVersionError, migrate
from tests.eventually import eventually
from tests.paused import paused
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.records import records_of
from tests.stack import Stack
from tests.stack.launch import Running

Records = Callable[[], list[Record]]
AtOnce = Callable[..., Future[Any]]
TOPIC = "stopped"
TIMEOUT_S = 2.0
SENDERS = 20
# For a machine that does five other things.
LATE_S = 1.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    """Yield a broker that these tests alone may stop, with one topic."""
    stack = Stack.start(redis=False, postgres=False, environ={})
    with stack as servers:
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
            admin.wait_for_topics([TOPIC])
        yield stack.running["kafka"]


@pytest.fixture
def behind(broker: Running, make_settings: MakeSettings, outbox_url: str) -> Settings:
    """Return settings of the broker that may be stopped."""
    return make_settings(
        kafka={"bootstrap_servers": broker.address},
        topic=TOPIC,
        send_timeout_s=TIMEOUT_S,
        outbox={"url": outbox_url, "lease_s": 2},
    )


def test_while_kafka_is_there_nothing_is_written(
    settings: Settings, rows: Rows, records: Records
) -> None:
    with Client(settings, outbox=settings.outbox.url) as client:
        client.send(b"v", request_id="a")
        assert all(one.sent for one in client.send_many(Submission(b"%d" % n) for n in range(200)))
    assert rows() == []
    assert len(records()) == 201


def test_while_kafka_stands_still_every_send_is_taken_in_time_and_none_is_lost_or_changed(
    broker: Running, behind: Settings, rows: Rows, at_once: AtOnce, left_open: None
) -> None:
    names = [f"{behind.kafka.group}-{n}" for n in range(60)]
    with Client(behind, outbox=behind.outbox.url) as client:
        client.send(b"before", request_id="before")

        def send(name: str) -> float:
            began_s = monotonic_s()
            assert client.send(b"v", key="k", request_id=name).request_id == name
            return monotonic_s() - began_s

        with paused(broker.pid):
            first = [at_once(send, name) for name in names[:8]]
            assert max(one.result() for one in first) < TIMEOUT_S + LATE_S
            # Now Kafka is known to be away: these do not wait for it, but for the ones that ask.
            quick = sorted(at_once(send, name).result() for name in names[8:])
            assert quick[len(quick) // 2] < TIMEOUT_S / 4
            assert quick[-1] < TIMEOUT_S + LATE_S
            assert {one["request_id"] for one in rows()} == set(names)
            status = client.status(names[0])
            assert (status.state, status.attempt) == (State.PENDING, 1)
        with relaying(behind):
            eventually(lambda: all(one["state"] == "SENT" for one in rows()), timeout_s=60)
    found = [decode_headers(one) for one in records_of(broker.address, TOPIC)]
    assert {one.request_id for one in found} >= set(names)
    assert {one.attempt for one in found if one.request_id in names} == {1}


def test_many_at_once_go_the_same_way(
    broker: Running, behind: Settings, rows: Rows, left_open: None
) -> None:
    with Client(behind, outbox=behind.outbox.url) as client:
        client.send(b"before")
        with paused(broker.pid):
            told = list(client.send_many(Submission(b"%d" % n) for n in range(300)))
            assert all(one.sent for one in told)
            assert {one["request_id"] for one in rows()} == {one.request_id for one in told}


def test_what_is_the_callers_fault_is_raised_and_written_nowhere(
    settings: Settings, rows: Rows
) -> None:
    with Client(settings, outbox=settings.outbox.url) as client:
        client.send(b"v", request_id="a")
        with pytest.raises(PayloadMismatch):
            client.send(b"other", request_id="a")
        with pytest.raises(InvalidMessage):
            client.send(b"v", request_id="with space")
        with pytest.raises(NotSent, match="larger than"):
            client.send(b"x" * 2_000_000, request_id="large")
        with pytest.raises(NotSent, match="knows no topic"):
            client.send(b"v", topic="no-such-topic", request_id="lost")
        assert client.status("large").state is State.UNKNOWN
        assert client.status("lost").state is State.UNKNOWN
    assert rows() == []


def test_what_is_too_large_is_refused_also_while_kafka_is_away(
    make_settings: MakeSettings, outbox_url: str, refusing: str, rows: Rows
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=1)
    with Client(settings, outbox=outbox_url) as client:
        with pytest.raises(NotSent, match="larger than"):
            client.send(b"x" * 2_000_000)
        client.send(b"v")
    assert len(rows()) == 1


def test_redis_away_is_no_reason_to_wait_or_to_send_what_nobody_looks_after(
    make_settings: MakeSettings, outbox_url: str, mute: str, rows: Rows, records: Records
) -> None:
    settings = make_settings(redis={"url": f"redis://{mute}/0"}, send_timeout_s=TIMEOUT_S)
    with Client(settings, outbox=outbox_url) as client:
        for number in range(10):
            began_s = monotonic_s()
            client.send(b"v", request_id=str(number))
            assert monotonic_s() - began_s < TIMEOUT_S + LATE_S
    assert len(rows()) == 10
    assert records() == []


@pytest.mark.parametrize("away", ["mute", "refusing"])
def test_no_caller_waits_longer_than_it_allowed_from_the_first_call_on(
    make_settings: MakeSettings,
    outbox_url: str,
    rows: Rows,
    request: pytest.FixtureRequest,
    away: str,
) -> None:
    address = request.getfixturevalue(away)
    settings = make_settings(kafka={"bootstrap_servers": address}, send_timeout_s=TIMEOUT_S)
    with (
        Client(settings, outbox=outbox_url) as client,
        ThreadPoolExecutor(SENDERS) as threads,
    ):

        def send(name: str) -> float:
            began_s = monotonic_s()
            assert client.send(b"v", key="k", request_id=name).request_id == name
            return monotonic_s() - began_s

        took_s = list(threads.map(send, [str(n) for n in range(SENDERS)]))
        assert max(took_s) < TIMEOUT_S + 0.5
        # And when Kafka is known to be away, or is asked again by one of them.
        took_s = list(threads.map(send, [f"more-{n}" for n in range(5 * SENDERS)]))
        assert max(took_s) < TIMEOUT_S + 0.5
    assert len(rows()) == 6 * SENDERS


def test_the_first_call_alone_is_taken_in_time(
    make_settings: MakeSettings, outbox_url: str, mute: str, rows: Rows
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    with Client(settings, outbox=outbox_url) as client:
        began_s = monotonic_s()
        client.send(b"v")
        assert monotonic_s() - began_s < TIMEOUT_S + 0.5
        began_s = monotonic_s()
        client.send(b"v", topic="another")
        assert monotonic_s() - began_s < TIMEOUT_S + 0.5
    assert len(rows()) == 2


def _sent_after_close(client: Client, many: Iterator[SendResult]) -> None:
    """Try all ways to send with a client that is closed."""
    known = Status("r", State.LOST, attempt=1)
    payload = KeptPayload("t", None, b"v")
    with pytest.raises(ClientClosed, match="closed"):
        client.send(b"v", request_id="r")
    with pytest.raises(ClientClosed, match="closed"):
        client.resend("r", payload, known=known)
    with pytest.raises(ClientClosed, match="closed"):
        client.send_many([Submission(b"v")])
    # A sending that was begun before: each of its requests is told.
    for result in many:
        assert isinstance(result.error, NotSent)
        assert "the client is closed" in str(result.error)


@pytest.mark.parametrize("is_away", [False, True])
def test_a_client_that_is_closed_writes_nothing_and_says_so_as_one_without_an_outbox(
    make_settings: MakeSettings,
    outbox_url: str,
    worker: Worker,
    request: pytest.FixtureRequest,
    rows: Rows,
    is_away: bool,
) -> None:
    kafka = {"bootstrap_servers": request.getfixturevalue("refusing")} if is_away else {}
    settings = make_settings(kafka=kafka, send_timeout_s=1)
    for outbox in (None, outbox_url):
        client = Client(settings, outbox=outbox)
        many = client.send_many((Submission(b"v") for _ in range(3)), rate=1000)
        if outbox or not is_away:
            client.send(b"before", request_id=f"before-{outbox is None}")
        before = worker.traces()
        written = rows()
        client.close()
        _sent_after_close(client, many)
        assert rows() == written
        assert worker.traces() == before


def test_what_is_being_sent_while_the_client_is_closed_is_taken_or_told(
    make_settings: MakeSettings, outbox_url: str, mute: str, rows: Rows, at_once: AtOnce
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    client = Client(settings, outbox=outbox_url)
    names = [str(n) for n in range(8)]
    sends = [at_once(client.send, b"v", request_id=name) for name in names]
    eventually(lambda: client.status(names[0]).state is State.PENDING, timeout_s=5)
    client.close()
    refused = 0
    for one in sends:
        try:
            one.result()
        except (NotSent, ClientClosed) as error:
            assert "the client is closed" in str(error)
            refused += 1
    assert len(rows()) == len(names) - refused


def test_the_database_away_as_well_is_told_with_both_reasons(
    make_settings: MakeSettings, refusing: str, mute: str, worker: Worker
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    for where in (refusing, mute):
        url = f"postgresql+psycopg://me@{where}/none"
        with Client(settings, outbox=url) as client:
            for number in range(3):
                began_s = monotonic_s()
                with pytest.raises(NotSent, match=r"Kafka .* and the outbox"):
                    client.send(b"v", request_id=f"a{number}")
                assert monotonic_s() - began_s < TIMEOUT_S + LATE_S
                assert worker.store.read(f"a{number}").state is State.UNKNOWN


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_row_of_unknown_outcome_is_an_unknown_send(
    broker: Running, behind: Settings, engine: Engine, left_open: None
) -> None:
    with Client(behind, outbox=behind.outbox.url) as client, engine.connect() as locking:
        client.send(b"before")
        locking.exec_driver_sql("LOCK TABLE onceward_outbox IN EXCLUSIVE MODE")
        with paused(broker.pid), pytest.raises(SendUnknown, match="outbox") as caught:
            client.send(b"v", request_id="a")
        assert caught.value.request_id == "a"
        assert client.status("a").state is State.PENDING
        locking.rollback()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_without_an_outbox_is_found_out_at_the_start(
    make_settings: MakeSettings, kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    with pytest.raises(OutboxVersionError, match="outbox migrate"):
        Client(make_settings(), outbox=url)


def test_a_user_who_may_not_write_is_found_out_at_the_start(
    make_settings: MakeSettings, postgres_url: str
) -> None:
    migrate(postgres_url)
    engine = create_engine(postgres_url, poolclass=NullPool)
    role = f"reader_{uuid.uuid4().hex}"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {role} LOGIN"))
        connection.execute(text(f"GRANT SELECT ON onceward_outbox, onceward_outbox_meta TO {role}"))
    try:
        url = engine.url.set(username=role).render_as_string(hide_password=False)
        with pytest.raises(OutboxForbidden, match="INSERT"):
            Client(make_settings(), outbox=url)
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))


def test_what_was_tried_at_the_start_is_not_there(
    make_settings: MakeSettings, outbox_url: str, rows: Rows
) -> None:
    with Client(make_settings(), outbox=outbox_url):
        assert rows() == []
