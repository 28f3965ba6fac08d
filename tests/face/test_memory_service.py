"""A whole service in one process: the guarantees of production, and what a test plants."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotSent, OncewardError, RedisUnavailable, SendUnknown
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import REQUEST_ID
from onceward import AsyncClient, Client, Request, Settings, State, handler
from onceward.testing import MemoryService, NeverReached, NotCovered
from onceward.testing.service import leading, memory_service
from producer_client.http.front_door import client_of
from producer_client.outbox import migrate
from tests.documents import ROOT, examples
from tests.eventually import eventually
from tests.face import serving
from tests.face.serving import bank
from tests.kit.settings import environment, write_settings

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def service() -> Iterator[MemoryService]:
    """Yield a service of all handlers, which the tests share."""
    with MemoryService(serving.charge, settings=Settings.load(None)) as started:
        yield started


@pytest.fixture
def client(service: MemoryService) -> Iterator[Client]:
    """Yield a client that is made from the environment alone, as a user's code makes it."""
    with Client() as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return an id that no other test uses."""
    return str(request.node.name)[:64]


def pay(client: Client, name: str, topic: str = "served-payments") -> State:
    """Send a payment and return how it ended."""
    return client.send({"amount": 5}, topic=topic, request_id=name).wait(LIMIT_S).state


def test_a_request_runs_in_a_child_and_its_client_is_told(client: Client, name: str) -> None:
    status = client.send({"amount": 5}, topic="served-payments", request_id=name).wait(LIMIT_S)
    assert isinstance(status.result, dict)
    assert status.result["paid"] == 5 and status.result["pid"] != os.getpid()


def test_a_client_of_asyncio_leads_there_too(service: MemoryService, name: str) -> None:
    async def send() -> State:
        async with AsyncClient() as client:
            handle = await client.send({"amount": 5}, topic="served-payments", request_id=name)
            return (await handle.wait(LIMIT_S)).state

    assert asyncio.run(send()) is State.SUCCEEDED
    assert service.outcome(name).runs == 1


def test_order_lifespans_and_transactions_are_those_of_production(
    service: MemoryService, client: Client, name: str
) -> None:
    sent = [client.send(str(n), topic="served-ordered", key="k") for n in range(5)]
    assert [one.wait(LIMIT_S).result for one in sent] == [100, 101, 102, 103, 104]
    assert (
        client.send(None, topic="served-booked", key=b"k", request_id=name).wait(LIMIT_S).result
        == 7
    )
    assert service.outcome(name).commits == 1


def test_what_is_refused_has_an_outcome_and_a_dead_letter(
    service: MemoryService, client: Client, name: str
) -> None:
    assert pay(client, name, "served-refused") is State.FAILED
    service.settle()
    # Both are written by then.
    letters = dead_letter_topic("served-refused", service.settings.kafka.group)
    for topic in ("served-outcomes", letters):
        (written,) = service.records(topic)
        assert name.encode() in (written.value or b"") + dict(written.headers).get(REQUEST_ID, b"")


def test_neither_a_duplicate_nor_a_redelivery_runs_again(
    service: MemoryService, client: Client, name: str
) -> None:
    assert pay(client, name) is State.SUCCEEDED
    service.duplicate(name)
    service.redeliver(name)
    service.settle()
    assert (service.outcome(name).runs, service.outcome(name).effects) == (1, 1)


def test_a_child_that_dies_before_its_effect_has_done_nothing_and_the_next_does(
    service: MemoryService, client: Client, name: str
) -> None:
    acted = bank.times_acted
    service.die_before_effect()
    assert pay(client, name) is State.SUCCEEDED
    assert (service.outcome(name).runs, bank.times_acted - acted) == (2, 1)


def test_a_child_that_dies_in_its_effect_leaves_a_doubt(
    service: MemoryService, client: Client, name: str
) -> None:
    service.die_in_effect()
    assert pay(client, name, "served-doubts") is State.IN_DOUBT
    assert service.outcome(name).runs == 1


def test_the_next_run_asks_with_the_same_key_where_it_may(
    service: MemoryService, client: Client, name: str
) -> None:
    acted, calls = bank.times_acted, bank.calls.total()
    service.die_in_effect()
    assert pay(client, name) is State.SUCCEEDED
    assert (bank.calls.total() - calls, bank.times_acted - acted) == (2, 1)


def test_a_kafka_that_refuses_connections_gets_nothing_of_a_new_client(
    service: MemoryService, client: Client, name: str
) -> None:
    with service.kafka_away("refuses"), pytest.raises(NotSent):
        client.send({"amount": 5}, topic="served-payments", request_id=name)
    service.settle()
    assert service.outcome(name).runs == 0
    assert pay(client, name) is State.SUCCEEDED


def test_a_kafka_that_was_known_and_hangs_leaves_it_unknown_and_does_it_once(
    service: MemoryService, client: Client, name: str
) -> None:
    pay(client, f"{name[:50]}-first")
    with service.kafka_away("hangs"), pytest.raises(SendUnknown):
        client.send({"amount": 5}, topic="served-payments", request_id=name)
    assert pay(client, name) is State.SUCCEEDED
    service.settle()
    assert service.outcome(name).runs == 1


def test_a_kafka_whose_answers_are_lost_has_it_and_it_runs_once(
    service: MemoryService, client: Client, name: str
) -> None:
    pay(client, f"{name[:50]}-first")
    with service.kafka_away("loses answers"), pytest.raises(SendUnknown):
        client.send({"amount": 5}, topic="served-payments", request_id=name)
    assert client.wait(name, timeout_s=LIMIT_S).state is State.SUCCEEDED
    assert pay(client, name) is State.SUCCEEDED
    service.settle()
    assert service.outcome(name).runs == 1


def test_a_redis_that_is_away_is_named_and_keeps_its_data(
    service: MemoryService, client: Client, name: str
) -> None:
    assert pay(client, name) is State.SUCCEEDED
    with service.redis_away():
        with pytest.raises(RedisUnavailable):
            client.status(name)
        with pytest.raises(NotSent):
            client.send({"amount": 5}, topic="served-payments")
    assert client.status(name).state is State.SUCCEEDED


def test_a_request_waits_for_a_journal_that_is_away(
    service: MemoryService, client: Client, name: str
) -> None:
    with service.journal_away():
        handle = client.send({"amount": 5}, topic="served-payments", request_id=name)
        assert not handle.status().state.is_final
    assert handle.wait(LIMIT_S).state is State.SUCCEEDED
    assert service.outcome(name).runs == 1


def test_a_variable_that_the_test_removes_is_no_fault_at_the_end() -> None:
    with leading.environment({"ONCEWARD_TEST_REMOVED": "1"}):
        del os.environ["ONCEWARD_TEST_REMOVED"]
    assert "ONCEWARD_TEST_REMOVED" not in os.environ


def test_a_process_has_one_service_at_a_time(service: MemoryService) -> None:
    with pytest.raises(NotCovered, match="one at a time"):
        MemoryService(serving.charge)


@pytest.fixture
def none_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the shared service be no hindrance, where another test has left it open."""
    monkeypatch.setattr(memory_service, "_OPENED", [])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> set[threading.Thread]:
    """Return the threads that this one starts, and those of these: none of the shared service."""
    found: set[threading.Thread] = set()
    this = threading.current_thread()
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        starter = threading.current_thread()
        if starter is this or starter in found:
            found.add(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return found


@pytest.mark.usefixtures("none_is_shared")
def test_it_leaves_no_thread_and_no_variable(started: set[threading.Thread]) -> None:
    variables = dict(os.environ)
    with MemoryService(serving.charge) as alone:
        assert os.environ["ONCEWARD_REDIS__URL"] == alone.settings.redis.url
        with alone.kafka_away("refuses"):
            pass
    assert dict(os.environ) == variables
    assert started
    eventually(lambda: not any(one.is_alive() for one in started), timeout_s=LIMIT_S)


@pytest.mark.usefixtures("none_is_shared")
def test_a_second_close_opens_nothing(started: set[threading.Thread]) -> None:
    alone = MemoryService(serving.charge)
    alone.close()
    alone.close()
    assert started
    eventually(lambda: not any(one.is_alive() for one in started), timeout_s=LIMIT_S)


@pytest.mark.usefixtures("none_is_shared")
def test_an_outbox_that_a_file_names_is_written_by_nobody(tmp_path: Path, name: str) -> None:
    theirs = f"sqlite:///{tmp_path / 'outbox.db'}"
    migrate(theirs)
    sections: dict[str, dict[str, Any]] = {
        "client": {"send_timeout_s": 5 * LIMIT_S},  # a row has a fifth of it
        "http": {"outbox": True},
        "outbox": {"url": theirs},
    }
    file = write_settings(tmp_path, sections)

    async def send(settings: Settings) -> None:
        async with client_of(settings) as client:
            await client.send({"amount": 5}, topic="served-payments", request_id=name)

    with MemoryService(serving.charge, settings=file) as alone, alone.kafka_away("refuses"):
        asyncio.run(send(alone.settings))
        asyncio.run(send(Settings.load(file)))
        assert rows_of(alone.settings.outbox.url) == [name, name]
    assert rows_of(theirs) == []


def rows_of(outbox: str) -> list[str]:
    """Return the ids of an outbox' rows."""
    with closing(sqlite3.connect(outbox.removeprefix("sqlite:///"))) as connection:
        return [one for (one,) in connection.execute("SELECT request_id FROM onceward_outbox")]


@pytest.mark.usefixtures("none_is_shared")
def test_a_death_to_which_no_run_came_fails_the_test() -> None:
    with pytest.raises(NeverReached, match="in_effect"), MemoryService(serving.charge) as alone:
        alone.die_in_effect()


@pytest.mark.usefixtures("none_is_shared")
def test_a_worker_that_has_ended_by_itself_fails_the_test() -> None:
    fault = OncewardError("its disk is full")
    with (
        pytest.raises(OncewardError, match="its disk is full"),
        MemoryService(serving.charge) as alone,
    ):
        alone._worker._service.built.stop.fail(fault)


@pytest.mark.usefixtures("none_is_shared", "no_handler_stays")
def test_a_handler_that_no_child_can_import_is_refused() -> None:
    @handler(topic="served-inside")
    def inside(request: Request) -> None: ...

    with pytest.raises(NotCovered, match="at the top of a module"):
        MemoryService(inside)


@pytest.mark.usefixtures("none_is_shared")
def test_without_fakeredis_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    with pytest.raises(OncewardError, match=r"pip install 'onceward\[testing\]'"):
        MemoryService(serving.charge)


def test_the_example_of_the_page_passes_as_it_is_printed(tmp_path: Path) -> None:
    blocks = [
        code for place, code in examples().items() if place.startswith("docs/how-to/testing.md")
    ]
    for code in blocks[:2]:
        file = code.partition("\n")[0].removeprefix("# ")
        (tmp_path / file).write_text(code)
    ran = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "onceward.pytest_plugin"),
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=5 * LIMIT_S,
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr
