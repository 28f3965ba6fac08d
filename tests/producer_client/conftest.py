"""Clients of a group and a topic of their own, closed after the test."""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from feedback.records.envelope import Record
from feedback.redis.server import connect
from feedback.settings.settings import Settings, load
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from tests.kit.settings import environment as without_settings
from tests.left_open import left_open
from tests.producer_client.acting import Worker
from tests.producer_client.blocking import BlockingClient
from tests.producer_client.programs import Done, Run, run_apart, run_here
from tests.producer_client.records import records_of
from tests.stack import Servers

MakeClient = Callable[..., Client]
MakeSettings = Callable[..., Settings]

# Of tests that say nothing of Redis: a machine that stands still is no Redis that is away, and a
# client that asked in vain may tell less.
REDIS_S = 10.0


# What these say of a client is said of both.
OF_BOTH = frozenset(
    {
        "test_broker_stopped",
        "test_durability",
        "test_waiter",
        "test_send",
        "test_send_again",
        "test_send_many",
        "test_sent_before",
        "test_servers_away",
        "test_wait",
        "test_wait_resends",
    }
)


# And these of one for threads that sends by librdkafka: `NotSent` and the trace of a send.
ON_LIBRDKAFKA = frozenset({"test_send_again", "test_send_many"})


# But for these: they take seconds, and asyncio has shorter ones of its own.
OF_THREADS = frozenset(
    {
        "test_the_rate_is_kept_within_ten_percent",
        "test_only_a_bounded_number_is_taken_from_the_source_ahead_of_the_results",
        "test_a_resend_that_hangs_in_kafka_does_not_hold_up_the_wait_past_its_end",
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let the tests of a client run with that for threads and with that for asyncio."""
    module = metafunc.module.__name__.rpartition(".")[2]
    is_of_both = module in OF_BOTH and metafunc.function.__name__ not in OF_THREADS
    if is_of_both and "make_client" in metafunc.fixturenames:
        kinds = ["threads", "asyncio", *(["librdkafka"] if module in ON_LIBRDKAFKA else [])]
        metafunc.parametrize("make_client", kinds, indirect=True)


@pytest.fixture
def make_settings(
    servers: Servers, group: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> MakeSettings:
    """Return a factory of settings: `make(redis={...}, kafka={...}, topic=..., ...)`."""
    # The environment would win over what a test says.
    for name in list(os.environ):
        if name.startswith("ONCEWARD_"):
            monkeypatch.delenv(name)
    own_topic = topic(1)

    def make(
        kafka: dict[str, Any] | None = None,
        redis: dict[str, Any] | None = None,
        outbox: dict[str, Any] | None = None,
        **client: Any,
    ) -> Settings:
        return load(
            None,
            kafka={"bootstrap_servers": servers.kafka, "group": group} | (kafka or {}),
            redis={"url": servers.redis} | ({"timeout_s": REDIS_S} if redis is None else redis),
            client={"topic": own_topic} | client,
            outbox=outbox or {},
        )

    return make


@pytest.fixture
def make_client(
    request: pytest.FixtureRequest, make_settings: MakeSettings
) -> Iterator[MakeClient]:
    """Return a factory of clients, with the arguments of `make_settings`."""
    made: list[Client | BlockingClient] = []
    kind = getattr(request, "param", "threads")
    is_async = kind == "asyncio"

    def make(**sections: Any) -> Client:
        if kind == "librdkafka":
            sections["kafka"] = {"client": "confluent"} | (sections.get("kafka") or {})
        settings = make_settings(**sections)
        made.append(BlockingClient(settings) if is_async else Client(settings))
        return cast("Client", made[-1])

    yield make
    for client in made:
        if isinstance(client, BlockingClient):
            client.end()
        else:
            client.close()


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    """Return a client of the servers."""
    return make_client()


@pytest.fixture
def worker(make_settings: MakeSettings) -> Iterator[Worker]:
    """Yield the worker's part of the group."""
    settings = make_settings()
    redis = connect(settings.redis)
    yield Worker(redis, settings.kafka.group, settings.redis)
    redis.close()


@pytest.fixture
def records(make_settings: MakeSettings) -> Callable[[], list[Record]]:
    """Return a function that reads all records of the client's topic."""
    settings = make_settings()
    assert settings.client.topic is not None
    where, topic = settings.kafka.bootstrap_servers, settings.client.topic
    return lambda: records_of(where, topic)


@pytest.fixture(name="left_open")
def sockets_left_open() -> Iterator[None]:
    """Let kafka-python leave the sockets of failed connections to the garbage collector."""
    with left_open():
        yield


@pytest.fixture
def refusing(left_open: None) -> str:
    """Return the address of a port that refuses connections."""
    return f"{HOST}:{free_port()}"


@pytest.fixture
def mute(left_open: None) -> Iterator[str]:
    """Yield the address of a port that accepts connections and never answers."""
    with socket.create_server((HOST, 0), backlog=64) as listening:
        yield f"{HOST}:{listening.getsockname()[1]}"


@pytest.fixture
def at_once() -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that calls another in a thread, and awaits all of them after the test."""
    with ThreadPoolExecutor(16) as threads:
        yield threads.submit


@pytest.fixture
def environment(make_settings: MakeSettings) -> dict[str, str]:
    """Return the environment of a command: these servers, this group, this topic."""
    settings = make_settings()
    return without_settings(
        ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=settings.kafka.bootstrap_servers,
        ONCEWARD_KAFKA__GROUP=settings.kafka.group,
        ONCEWARD_REDIS__URL=settings.redis.url,
        ONCEWARD_CLIENT__TOPIC=settings.client.topic or "",
        ONCEWARD_CLIENT__SEND_TIMEOUT_S="2",
        ONCEWARD_CLIENT__POLL_INTERVAL_S="0.1",
    )


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Return a function that runs the command: `run("send", ..., stdin="", NAME="value")`."""

    def run(*arguments: str, stdin: str = "", **changes: str) -> Done:
        return run_apart(arguments, stdin=stdin, environment=environment | changes)

    return run


@pytest.fixture
def call(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Return the like of `run` in this process."""

    def call(*arguments: str, stdin: str = "", **changes: str) -> Done:
        changed = environment | changes
        return run_here(arguments, stdin=stdin, environment=changed, capsys=capsys)

    return call
