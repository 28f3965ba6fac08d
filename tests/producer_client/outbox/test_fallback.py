"""Kafka first, else the outbox: the caller has its handle in time, whatever is away."""

import asyncio
import itertools
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from feedback.clock import monotonic_s
from feedback.errors import InvalidMessage, NotSent, PayloadMismatch, RedisUnavailable, SendUnknown
from feedback.records.envelope import Record, decode_headers
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import Status
from onceward.servers.launch import RunningServer
from producer_client import AsyncClient, Client, SendResult, Submission
from producer_client.outbox import OutboxForbidden, OutboxVersionError, circuit, fallback, migrate
from producer_client.outbox.row_writer import POSTGRES_THREADS
from producer_client.owner import ClientClosed
from tests.eventually import eventually
from tests.paused import paused
from tests.producer_client.acting import Worker
from tests.producer_client.blocking import BlockingClient
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.records import records_of
from tests.rounds import holds_in_one_round, in_time
from tests.stack import Stack

pytestmark = pytest.mark.waits

Records = Callable[[], list[Record]]
AtOnce = Callable[..., Future[Any]]
Opened = Callable[..., Any]
TOPIC = "stopped"
TIMEOUT_S = 2.0
SENDERS = 20
# For a machine that does five other things.
LATE_S = 1.0


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningServer]:
    """Yield a broker that these tests alone may stop, with one topic."""
    stack = Stack.start(redis=False, postgres=False, environ={})
    with stack as servers:
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
            admin.wait_for_topics([TOPIC])
        yield stack.running["kafka"]


@pytest.fixture
def behind(broker: RunningServer, make_settings: MakeSettings, outbox_url: str) -> Settings:
    """Return settings of the broker that may be stopped."""
    return make_settings(
        kafka={"bootstrap_servers": broker.address},
        topic=TOPIC,
        send_timeout_s=TIMEOUT_S,
        outbox={"url": outbox_url, "lease_s": 2},
    )


@pytest.fixture(params=["threads", "asyncio"])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Yield a function that makes a client; the test runs with each of the two kinds."""
    blocking: list[BlockingClient] = []

    def make(settings: Settings, **given: Any) -> Any:
        if request.param == "threads":
            return Client(settings, **given)
        blocking.append(BlockingClient(settings, **given))
        return blocking[-1]

    yield make
    for client in blocking:
        client.end()


@pytest.fixture
def patient_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let callers wait a minute for their rows: a machine that stands still refuses none."""
    monkeypatch.setattr(fallback, "ROW_SHARE", 60 / TIMEOUT_S)


@pytest.fixture
def patient_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Redis a minute too: what is told is told, also by a machine that stands still."""
    monkeypatch.setattr(fallback, "REDIS_SHARE", 60 / TIMEOUT_S)


@pytest.fixture
def patient_circuit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody ask a Kafka again that was away: a send that does is not at its row meanwhile."""
    monkeypatch.setattr(circuit, "PAUSE_S", (60.0, 60.0))


def test_while_kafka_is_there_nothing_is_written(
    make_settings: MakeSettings, outbox_url: str, rows: Rows, records: Records
) -> None:
    settings = make_settings(outbox={"url": outbox_url}, send_timeout_s=60)
    with Client(settings, outbox=settings.outbox.url) as client:
        client.send(b"v", request_id="a")
        assert all(one.sent for one in client.send_many(Submission(b"%d" % n) for n in range(200)))
    assert rows() == []
    assert len(records()) == 201


@pytest.mark.usefixtures("patient_rows")
def test_while_kafka_stands_still_every_send_is_taken_in_time_and_none_is_lost_or_changed(
    opened: Opened,
    broker: RunningServer,
    behind: Settings,
    rows: Rows,
    at_once: AtOnce,
    left_open: None,
) -> None:
    numbers = itertools.count()
    names: list[str] = []

    def send(client: Client) -> float:
        name = f"{behind.kafka.group}-{next(numbers)}"
        began_s = monotonic_s()
        assert client.send(b"v", key="k", request_id=name).request_id == name
        names.append(name)
        return monotonic_s() - began_s

    def one_round() -> None:
        with opened(behind, outbox=behind.outbox.url) as client:
            client.send(b"before")
            with paused(broker.pid):
                first = [at_once(send, client) for _ in range(8)]
                first_s = [one.result() for one in first]
                # Now Kafka is known to be away: these do not wait for it, but for those that ask.
                quick_s = sorted(at_once(send, client).result() for _ in range(52))
                assert {one["request_id"] for one in rows()} >= set(names)
                status = client.status(names[0])
                assert (status.state, status.attempt) == (State.PENDING, 1)
        assert max(first_s) < TIMEOUT_S + LATE_S
        assert quick_s[len(quick_s) // 2] < TIMEOUT_S / 4
        assert quick_s[-1] < TIMEOUT_S + LATE_S

    # A machine that stands still may leave Redis no time.
    holds_in_one_round(one_round, noise=(NotSent, SendUnknown, RedisUnavailable))
    with relaying(behind):
        eventually(lambda: all(one["state"] == "SENT" for one in rows()), timeout_s=60)
    found = [decode_headers(one) for one in records_of(broker.address, TOPIC)]
    assert {one.request_id for one in found} >= set(names)
    assert {one.attempt for one in found if one.request_id in names} == {1}


@pytest.mark.usefixtures("patient_rows")
def test_many_at_once_go_the_same_way(
    broker: RunningServer, behind: Settings, rows: Rows, left_open: None
) -> None:
    with Client(behind, outbox=behind.outbox.url) as client:
        client.send(b"before")
        with paused(broker.pid):
            told = list(client.send_many(Submission(b"%d" % n) for n in range(300)))
            assert all(one.sent for one in told)
            assert {one["request_id"] for one in rows()} == {one.request_id for one in told}


def test_what_is_the_callers_fault_is_raised_and_written_nowhere(
    make_settings: MakeSettings, outbox_url: str, rows: Rows
) -> None:
    # Half of it is Kafka's: a broker on a machine that stands still is there, and answers late.
    settings = make_settings(outbox={"url": outbox_url}, send_timeout_s=10)
    with Client(settings, outbox=settings.outbox.url) as client:
        client.send(b"v", request_id="a")
        with pytest.raises(PayloadMismatch):
            client.send(b"other", request_id="a")
        with pytest.raises(InvalidMessage):
            client.send(b"v", request_id="with space")
        with pytest.raises(NotSent, match="larger than"):
            client.send(b"x" * 2_000_000, request_id="large")
        with pytest.raises(NotSent, match="knows no topic"):
            client.send(b"v", topic="no-such-topic")
        with pytest.raises(SendUnknown, match=r"knows no topic.* another process"):
            client.send(b"v", topic="no-such-topic", request_id="lost")
        assert client.status("large").state is State.UNKNOWN
        assert client.status("lost").state is State.UNKNOWN
    assert rows() == []


@pytest.mark.usefixtures("patient_rows")
def test_what_is_too_large_is_refused_also_while_kafka_is_away(
    make_settings: MakeSettings, outbox_url: str, refusing: str, rows: Rows
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=1)
    with Client(settings, outbox=outbox_url) as client:
        with pytest.raises(NotSent, match="larger than"):
            client.send(b"x" * 2_000_000)
        client.send(b"v")
    assert len(rows()) == 1


@pytest.mark.usefixtures("patient_rows")
def test_redis_away_is_no_reason_to_wait_or_to_send_what_nobody_looks_after(
    opened: Opened,
    make_settings: MakeSettings,
    outbox_url: str,
    mute: str,
    rows: Rows,
    records: Records,
) -> None:
    settings = make_settings(redis={"url": f"redis://{mute}/0"}, send_timeout_s=TIMEOUT_S)
    numbers = itertools.count()
    with opened(settings, outbox=outbox_url) as client:

        def send() -> None:
            client.send(b"v", request_id=str(next(numbers)))

        for _ in range(10):
            in_time(send, limit_s=TIMEOUT_S + LATE_S)
    assert len(rows()) == next(numbers)
    assert records() == []


@pytest.mark.usefixtures("patient_rows")
def test_what_was_written_while_redis_was_away_reopens_no_failure_that_was_told_since(
    make_settings: MakeSettings, settings: Settings, outbox_url: str, refusing: str, rows: Rows,
    worker: Worker, records: Records,
) -> None:  # fmt: skip
    with Client(settings) as client:
        client.send(b"v", request_id="r1")
        blind = make_settings(redis={"url": f"redis://{refusing}/0"}, send_timeout_s=TIMEOUT_S)
        with Client(blind, outbox=outbox_url) as cut_off:
            cut_off.send(b"v", request_id="r1")
        worker.tell("r1", State.FAILED, code="BUSY", resend="1")
        assert client.wait("r1", timeout_s=5).state is State.FAILED
        with relaying(settings):
            eventually(lambda: rows()[0]["state"] == "SENT", timeout_s=30)
        assert client.status("r1").state is State.FAILED
    assert len(records()) == 1


@pytest.mark.parametrize("away", ["mute", "refusing"])
def test_no_caller_waits_longer_than_it_allowed_from_the_first_call_on(
    make_settings: MakeSettings,
    outbox_url: str,
    rows: Rows,
    request: pytest.FixtureRequest,
    away: str,
) -> None:
    address = request.getfixturevalue(away)
    rounds = itertools.count(1)
    taken: set[str] = set()
    refused: set[str] = set()

    def send(client: Client) -> float:
        name = uuid.uuid4().hex
        began_s = monotonic_s()
        try:
            assert client.send(b"v", key="k", request_id=name).request_id == name
        except NotSent:
            refused.add(name)
            raise
        taken.add(name)
        return monotonic_s() - began_s

    def one_round() -> None:
        # Callers that wait for each other wait for twenty times as long, however long that is.
        timeout_s = TIMEOUT_S * next(rounds)
        settings = make_settings(kafka={"bootstrap_servers": address}, send_timeout_s=timeout_s)
        with Client(settings, outbox=outbox_url) as client:
            # And then Kafka is known to be away, or is asked again by one of them.
            for calls in (SENDERS, 5 * SENDERS):
                assert max(threads.map(send, [client] * calls)) < timeout_s + 0.5

    with ThreadPoolExecutor(SENDERS) as threads:
        # A machine that stands still for a fifth of the time makes them late, or refuses them.
        holds_in_one_round(one_round, noise=(NotSent, SendUnknown))
    written = {one["request_id"] for one in rows()}
    assert written >= taken
    assert not written & refused
    assert len(taken) >= 6 * SENDERS


@pytest.mark.usefixtures("patient_rows")
def test_the_first_call_alone_is_taken_in_time(
    make_settings: MakeSettings, outbox_url: str, mute: str, rows: Rows
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    sent = itertools.count()

    def one_round() -> None:
        with Client(settings, outbox=outbox_url) as client:
            for topic in (None, "another"):
                began_s = monotonic_s()
                client.send(b"v", topic=topic)
                next(sent)
                assert monotonic_s() - began_s < TIMEOUT_S + 0.5

    holds_in_one_round(one_round)
    assert len(rows()) == next(sent)


def _sent_after_close(client: Client, many: Iterator[SendResult]) -> None:
    """Try all ways to send with a client that is closed."""
    known = Status("r", State.LOST, attempt=1)
    payload = StoredPayload("t", None, b"v")
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


@pytest.mark.usefixtures("patient_rows")
@pytest.mark.parametrize("is_away", [False, True])
def test_a_client_that_is_closed_writes_nothing_and_says_so_as_one_without_an_outbox(
    opened: Opened,
    make_settings: MakeSettings,
    outbox_url: str,
    worker: Worker,
    request: pytest.FixtureRequest,
    rows: Rows,
    is_away: bool,
) -> None:
    kafka = {"bootstrap_servers": request.getfixturevalue("refusing")} if is_away else {}
    # It bounds the case alone in which Kafka is away.
    settings = make_settings(kafka=kafka, send_timeout_s=1 if is_away else 60)
    for outbox in (None, outbox_url):
        client = opened(settings, outbox=outbox)
        many = client.send_many((Submission(b"v") for _ in range(3)), rate=1000)
        if outbox or not is_away:
            client.send(b"before", request_id=f"before-{outbox is None}")
        before = worker.traces()
        written = rows()
        client.close()
        _sent_after_close(client, many)
        assert rows() == written
        assert worker.traces() == before


@pytest.mark.usefixtures("patient_rows", "patient_redis")
def test_what_is_being_sent_while_the_client_is_closed_is_taken_or_told(
    opened: Opened,
    make_settings: MakeSettings,
    outbox_url: str,
    mute: str,
    rows: Rows,
    at_once: AtOnce,
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    client = opened(settings, outbox=outbox_url)
    names = [str(n) for n in range(8)]
    sends = [at_once(client.send, b"v", request_id=name) for name in names]
    eventually(lambda: client.status(names[0]).state is State.PENDING, timeout_s=30)
    client.close()
    refused = 0
    for one in sends:
        try:
            one.result()
        except (SendUnknown, ClientClosed) as error:
            assert "the client is closed" in str(error)
            refused += 1
    assert len(rows()) == len(names) - refused


def test_the_database_away_as_well_is_told_with_both_reasons(
    opened: Opened, make_settings: MakeSettings, refusing: str, mute: str, worker: Worker
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    for where in (refusing, mute):
        url = f"postgresql+psycopg://me@{where}/none"
        with opened(settings, outbox=url) as client:
            told: list[NotSent] = []

            def one_round(client: BlockingClient = client, told: list[NotSent] = told) -> None:
                def send() -> None:
                    with pytest.raises(NotSent) as caught:
                        client.send(b"v")
                    told.append(caught.value)

                for _ in range(3):
                    in_time(send, limit_s=TIMEOUT_S + LATE_S)

            # On a machine that stands still the time may end while a row is under way.
            holds_in_one_round(one_round, noise=(SendUnknown,))
            for one in told:
                assert re.search(r"Kafka .* and the outbox", str(one))
                assert worker.store.read(one.request_id).state is State.UNKNOWN


@pytest.mark.usefixtures("patient_rows")
def test_an_id_of_the_callers_may_wait_in_a_row_that_nobody_can_read_now(
    opened: Opened,
    make_settings: MakeSettings,
    settings: Settings,
    outbox_url: str,
    refusing: str,
    rows: Rows,
    worker: Worker,
    records: Records,
) -> None:
    cut_off = make_settings(redis={"url": f"redis://{refusing}/0"}, send_timeout_s=TIMEOUT_S)
    with Client(cut_off, outbox=outbox_url) as another:
        another.send(b"v", request_id="r1")
    away = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    with opened(away, outbox=f"postgresql+psycopg://me@{refusing}/none") as client:
        with pytest.raises(SendUnknown, match="another process may have written it"):
            client.send(b"v", request_id="r1")
        assert worker.store.read("r1").state is State.UNKNOWN
    with relaying(settings):
        eventually(lambda: rows()[0]["state"] == "SENT", timeout_s=30)
    assert len(records()) == 1


@pytest.mark.usefixtures("patient_redis")
@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_row_of_unknown_outcome_is_an_unknown_send(
    opened: Opened, broker: RunningServer, behind: Settings, engine: Engine, left_open: None
) -> None:
    with opened(behind, outbox=behind.outbox.url) as client, engine.connect() as locking:
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
        with engine.begin() as connection:
            connection.execute(text("REVOKE USAGE ON SCHEMA public FROM PUBLIC"))
        with pytest.raises(OutboxForbidden, match="GRANT USAGE ON SCHEMA public"):
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


# A commit waits for this lock, which the test has.
HELD = """
CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER held AFTER INSERT ON onceward_outbox DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION held();
"""


@pytest.mark.usefixtures("patient_rows", "patient_redis", "patient_circuit")
@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_cancelled_send_is_written_and_pending_or_leaves_no_trace(
    make_settings: MakeSettings,
    outbox_url: str,
    refusing: str,
    rows: Rows,
    engine: Engine,
    worker: Worker,
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    names = [str(n) for n in range(POSTGRES_THREADS)]

    async def cancelled() -> None:
        async with AsyncClient(settings, outbox=outbox_url) as client:
            with engine.connect() as locking:
                locking.exec_driver_sql("SELECT pg_advisory_xact_lock(7)")
                tasks = [asyncio.create_task(client.send(b"v", request_id=one)) for one in names]
                await asyncio.to_thread(eventually, lambda: _waiting(engine) == len(names))
                # All threads are busy: this row is not begun.
                late = asyncio.create_task(client.send(b"v", request_id="late"))
                while (await client.status("late")).state is not State.PENDING:
                    await asyncio.sleep(0.01)
                for task in (*tasks, late):
                    task.cancel()
                ended = await asyncio.gather(*tasks, late, return_exceptions=True)
                assert [type(one) for one in ended] == [asyncio.CancelledError] * len(ended)

    with engine.begin() as connection:
        connection.exec_driver_sql(HELD)
    asyncio.run(cancelled())
    assert sorted(one["request_id"] for one in rows()) == names
    assert {worker.store.read(name).state for name in names} == {State.PENDING}
    assert worker.store.read("late").state is State.UNKNOWN


def _waiting(engine: Engine) -> int:
    with engine.connect() as asking:
        here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        said = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND database = {here}"
        return int(asking.exec_driver_sql(said).scalar_one())
