"""Clients are told the latest, in batches, whether Redis is there or away for a while."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakeredis import FakeRedis, FakeServer

from consumer.journal import Finish, Published, Row
from consumer.status import status_backlog as untold
from consumer.status import status_messages
from consumer.status.status_writer import RUNNING_AFTER_S, SLOW_S, StatusWriter
from feedback.errors import RedisUnavailable
from feedback.logs import event_of
from feedback.redis import sent_write
from feedback.redis import store as store_module
from feedback.redis.sent_write import SentWrite
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.samples import delivery, row
from tests.eventually import HANG_S, eventually

LIMIT_S = 30.0


class Heard:
    """The states that were told of each request, in order."""

    def __init__(self, redis: Any, store: StatusStore) -> None:
        self._pubsub = redis.pubsub()
        self._pubsub.psubscribe(f"{store.prefix}events:*")
        self._heard: list[tuple[str, str]] = []

    def states(self, request_id: str) -> list[str]:
        """Return the states of one request so far."""
        while message := self._pubsub.get_message():
            if message["type"] == "pmessage":
                name = message["channel"].decode().rpartition("{")[2].removesuffix("}")
                self._heard.append((name, message["data"].decode()))
        return [state for name, state in self._heard if name == request_id]


@pytest.fixture
def server() -> FakeServer:
    """Return a Redis that a test can take away: `connected = False`."""
    return FakeServer()


@pytest.fixture
def store(server: FakeServer) -> StatusStore:
    """Return the store of a group."""
    return StatusStore(FakeRedis(server=server), "payments", RedisSection())


@pytest.fixture
def heard(store: StatusStore, server: FakeServer) -> Heard:
    """Return who hears every change."""
    return Heard(FakeRedis(server=server), store)


@pytest.fixture
def status_writer(store: StatusStore, server: FakeServer) -> Iterator[StatusWriter]:
    """Yield a status_writer that is not started."""
    made = StatusWriter(store)
    yield made
    server.connected = True
    made.stop(HANG_S)
    assert not made._thread.is_alive()


def claimed(request_id: str) -> Row:
    return row(request_id, "CLAIMED")


def succeeded(request_id: str, generation: int = 1, result: str = "1") -> StatusWrite:
    finish = Finish(request_id, generation, "SUCCEEDED", None, None, result, False)
    return status_messages.finished(delivery(request_id), finish, worker_id="me")


def state_of(store: StatusStore, request_id: str) -> State:
    return store.read(request_id).state


def test_a_short_run_is_told_by_its_outcome_alone(
    status_writer: StatusWriter, heard: Heard
) -> None:
    status_writer.tell_running([claimed("a")])
    status_writer.tell([succeeded("a")])
    # A run that was not forgotten would be due when the thread begins.
    time.sleep(2 * RUNNING_AFTER_S)
    status_writer.start()
    assert status_writer.flush(LIMIT_S)
    assert heard.states("a") == ["SUCCEEDED"]


def test_nothing_to_tell_is_heard_by_nobody(store: StatusStore) -> None:
    heard: list[object] = []
    nothing: list[StatusWrite] = []
    StatusWriter(store, on_tell=heard.append).tell(nothing)
    assert heard == []


def test_a_run_that_lasts_is_told_after_its_time_and_not_before(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    began_s = time.monotonic()
    status_writer.tell_running([claimed("a")])
    eventually(lambda: state_of(store, "a") is State.RUNNING, timeout_s=LIMIT_S, interval_s=0.001)
    assert time.monotonic() - began_s >= RUNNING_AFTER_S
    status_writer.tell([succeeded("a")])
    assert status_writer.flush(LIMIT_S)
    assert state_of(store, "a") is State.SUCCEEDED


def test_the_latest_of_a_request_wins_while_it_waits(
    status_writer: StatusWriter, store: StatusStore, heard: Heard
) -> None:
    failed = Finish("a", 1, "FAILED", "HANDLER_ERROR", None, None, True)
    status_writer.tell([status_messages.finished(delivery("a"), failed, worker_id="me")])
    status_writer.tell([succeeded("a", generation=2)])
    status_writer.start()
    assert status_writer.flush(LIMIT_S)
    assert heard.states("a") == ["SUCCEEDED"]
    assert store.read("a").generation == 2


def test_what_was_told_is_handed_out_once_and_only_what_the_journal_notes(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    status_writer.tell([succeeded("a"), status_messages.accepted(delivery("c"), worker_id="me")])
    status_writer.tell_running([claimed("b")])
    eventually(lambda: state_of(store, "b") is State.RUNNING, timeout_s=LIMIT_S)
    assert status_writer.flush(LIMIT_S)
    assert status_writer.told_count == 1
    assert status_writer.take_told() == [Published("a", 1, "SUCCEEDED")]
    assert status_writer.take_told() == []


def test_what_a_redis_that_is_gone_was_told_is_not_for_the_journal_to_note(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    status_writer.tell([succeeded("a")])
    assert status_writer.flush(LIMIT_S)
    status_writer.forget_told()
    assert status_writer.take_told() == []
    status_writer.tell([succeeded("b")])
    assert status_writer.flush(LIMIT_S)
    assert status_writer.take_told() == [Published("b", 1, "SUCCEEDED")]


def test_while_redis_is_away_nothing_counts_as_told_and_afterwards_all_is(
    status_writer: StatusWriter, store: StatusStore, server: FakeServer
) -> None:
    status_writer.start()
    server.connected = False
    status_writer.tell([succeeded(f"r{n}", result="1") for n in range(300)])
    eventually(lambda: status_writer.redis_away, timeout_s=LIMIT_S)
    assert status_writer.take_told() == []
    status_writer.tell([succeeded("r0", result="2")])
    server.connected = True
    eventually(lambda: status_writer.told_count == 300, timeout_s=LIMIT_S)
    assert not status_writer.redis_away
    assert {state_of(store, f"r{n}") for n in range(300)} == {State.SUCCEEDED}
    assert store.read("r0").result == 2
    assert len({one.request_id for one in status_writer.take_told()}) == 300


def test_a_flush_does_not_wait_for_a_redis_that_is_away(
    status_writer: StatusWriter, server: FakeServer
) -> None:
    status_writer.start()
    server.connected = False
    status_writer.tell([succeeded("a")])
    eventually(lambda: status_writer.redis_away, timeout_s=LIMIT_S)
    began_s = time.monotonic()
    assert not status_writer.flush(60.0)
    assert time.monotonic() - began_s < LIMIT_S
    assert status_writer.take_told() == []


def test_the_backlog_is_bounded_and_what_it_drops_is_not_called_told(
    status_writer: StatusWriter, store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untold, "BACKLOG_LIMIT", 10)
    status_writer.tell([succeeded(f"r{n}") for n in range(15)])
    status_writer.start()
    assert status_writer.flush(LIMIT_S)
    told = [one.request_id for one in status_writer.take_told()]
    assert told == [f"r{n}" for n in range(5, 15)]
    assert {state_of(store, f"r{n}") for n in range(5)} == {State.UNKNOWN}


def test_a_write_that_the_rule_refuses_is_not_repeated(
    status_writer: StatusWriter, store: StatusStore, heard: Heard
) -> None:
    status_writer.start()
    status_writer.tell([succeeded("a", generation=2)])
    assert status_writer.flush(LIMIT_S)
    status_writer.tell([succeeded("a", generation=1)])
    assert status_writer.flush(LIMIT_S)
    assert heard.states("a") == ["SUCCEEDED"]
    assert store.read("a").generation == 2


def test_a_run_that_lasts_is_told_although_the_end_of_the_one_before_still_waits(
    status_writer: StatusWriter, store: StatusStore, server: FakeServer
) -> None:
    retrying = row("a", "RETRYING", due_at=5)
    status_writer.tell([status_messages.from_row(retrying)])
    status_writer.tell_running([row("a", "CLAIMED", generation=2)])
    server.connected = False
    status_writer.start()
    eventually(lambda: status_writer.redis_away, timeout_s=LIMIT_S)
    server.connected = True
    eventually(lambda: state_of(store, "a") is State.RUNNING, timeout_s=LIMIT_S)
    assert store.read("a").generation == 2


def test_what_could_not_be_told_gives_way_to_what_came_since_and_to_nothing_older(
    status_writer: StatusWriter, store: StatusStore, server: FakeServer
) -> None:
    status_writer.start()
    server.connected = False
    failed = Finish("older", 1, "FAILED", "HANDLER_ERROR", None, None, True)
    older = status_messages.finished(delivery("older"), failed, worker_id="me")
    status_writer.tell([succeeded("newer", generation=2), older])
    eventually(lambda: status_writer.redis_away, timeout_s=LIMIT_S)
    status_writer.tell([succeeded("newer", generation=1), succeeded("older", generation=2)])
    status_writer.tell([status_messages.given_up(delivery("newer"), worker_id="me")])
    server.connected = True
    eventually(lambda: status_writer.told_count == 2, timeout_s=LIMIT_S)
    assert {store.read(one).generation for one in ("newer", "older")} == {2}


def test_a_duplicate_that_is_given_up_does_not_hide_that_the_first_runs(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.tell_running([claimed("a")])
    status_writer.tell([status_messages.given_up(delivery("a"), worker_id="me")])
    status_writer.start()
    eventually(lambda: state_of(store, "a") is State.RUNNING, timeout_s=LIMIT_S)


def test_an_outcome_says_where_its_request_came_from_when_redis_forgot_it(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    status_writer.tell([succeeded("a")])
    assert status_writer.flush(LIMIT_S)
    found, sent = store.read("a"), delivery("a")
    where = (found.topic, found.partition, found.offset, found.deadline_at)
    assert where == ("payments", sent.record.partition, sent.record.offset, sent.deadline_at)


def test_a_status_that_redis_refuses_costs_the_others_nothing_and_is_not_tried_for_ever(
    status_writer: StatusWriter, store: StatusStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.redis.set(store.request_key("r7"), "not a hash")
    status_writer.start()
    everything = [succeeded(f"r{n}") for n in range(300)]
    status_writer.tell(everything)
    assert status_writer.flush(LIMIT_S)
    status_writer.tell(everything)
    assert status_writer.flush(LIMIT_S)
    told = {one.request_id for one in status_writer.take_told()}
    assert told == {one.request_id for one in everything} - {"r7"}
    assert not status_writer.redis_away
    events = [event_of(record) for record in caplog.records]
    assert events.count("status.not_told") == 1
    status_writer.tell([succeeded("r7", generation=2)])
    assert status_writer.flush(LIMIT_S)
    assert [event_of(record) for record in caplog.records].count("status.not_told") == 2


def test_what_waits_is_bounded_in_bytes_as_well(
    status_writer: StatusWriter, store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untold, "BACKLOG_BYTES", 100_000)
    large = f'"{"x" * 30_000}"'
    status_writer.tell([succeeded(f"r{n}", result=large) for n in range(10)])
    assert status_writer.backlog == 3
    status_writer.tell([succeeded("r9", result="1")])
    status_writer.tell([succeeded("r10", result=large)])
    assert status_writer.backlog == 4
    status_writer.start()
    assert status_writer.flush(LIMIT_S)
    assert status_writer.backlog == 0
    told = [one.request_id for one in status_writer.take_told()]
    assert told == ["r7", "r8", "r9", "r10"]


def test_what_is_told_meanwhile_is_on_its_way_before_and_the_resender_looks_at_it(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    store.write([succeeded("b")])  # the script is known
    with status_writer.telling(
        [status_messages.accepted(delivery("a"), worker_id="me")]
    ) as answers:
        assert eventually(lambda: store.read("a").offset == 17, timeout_s=LIMIT_S)
    assert answers == [None]
    assert store.redis.zscore(store.deadlines_key, "a")


def test_what_is_told_meanwhile_while_redis_is_away_is_told_later_without_waiting_for_it(
    status_writer: StatusWriter, store: StatusStore, server: FakeServer
) -> None:
    server.connected = False
    for name in ("a", "b"):
        with status_writer.telling(
            [status_messages.accepted(delivery(name), worker_id="me")]
        ) as none:
            assert status_writer.redis_slow
        assert not none
    status_writer.tell([succeeded("a")])
    server.connected = True
    status_writer.start()
    assert eventually(lambda: status_writer.is_all_told, timeout_s=LIMIT_S)
    assert (state_of(store, "a"), state_of(store, "b")) == (State.SUCCEEDED, State.LOST)
    assert store.redis.zscore(store.deadlines_key, "b")


def test_a_redis_that_goes_away_meanwhile_is_told_later(
    status_writer: StatusWriter, store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(sent: SentWrite) -> None:
        sent.abandon()
        raise RedisUnavailable("cut")

    # A busy machine is slow enough by itself.
    monkeypatch.setattr("consumer.status.status_writer.SLOW_S", LIMIT_S)
    monkeypatch.setattr(SentWrite, "answers", cut)
    is_slow = [status_writer.redis_slow]
    with status_writer.telling([status_messages.accepted(delivery("a"), worker_id="me")]) as none:
        is_slow.append(status_writer.redis_slow)
    is_slow.append(status_writer.redis_slow)
    status_writer.start()
    assert eventually(lambda: status_writer.is_all_told, timeout_s=LIMIT_S)
    assert [*is_slow, status_writer.redis_slow] == [False, False, True, False]
    assert not none


@pytest.mark.parametrize("broken", ["send", "answers"])
def test_a_thread_that_waits_for_work_hears_of_what_was_not_told_meanwhile(
    status_writer: StatusWriter,
    store: StatusStore,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    def cut(one: object, *_: object, **__: object) -> SentWrite:
        if isinstance(one, SentWrite):
            one.abandon()
        raise RedisUnavailable("cut")

    idle = threading.Event()
    wait = status_writer._changed.wait

    def waits(timeout_s: float | None = None) -> bool:
        if timeout_s is None:
            idle.set()
        return wait(timeout_s)

    monkeypatch.setattr(status_writer._changed, "wait", waits)
    status_writer.start()
    assert idle.wait(LIMIT_S)
    monkeypatch.setattr(StatusStore if broken == "send" else SentWrite, broken, cut)
    with status_writer.telling([status_messages.accepted(delivery("a"), worker_id="me")]):
        pass
    eventually(lambda: store.read("a").offset == 17, timeout_s=LIMIT_S)


def test_a_slow_kafka_makes_no_slow_redis(
    status_writer: StatusWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_writer.start()
    now_s = 0.0
    for module in (store_module, sent_write):
        monkeypatch.setattr(module, "monotonic_s", lambda: now_s)
    with status_writer.telling([status_messages.accepted(delivery("a"), worker_id="me")]):
        now_s = 2 * SLOW_S
    assert not status_writer.redis_slow


def test_a_redis_whose_answer_takes_long_is_slow(
    status_writer: StatusWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_writer.start()
    times_s = itertools.count(step=2 * SLOW_S)
    monkeypatch.setattr(sent_write, "monotonic_s", lambda: next(times_s))
    with status_writer.telling([status_messages.accepted(delivery("a"), worker_id="me")]):
        assert not status_writer.redis_slow
    assert status_writer.redis_slow


def test_a_block_that_fails_leaves_no_answer_behind(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    with (
        pytest.raises(ZeroDivisionError),
        status_writer.telling([status_messages.accepted(delivery("a"), worker_id="me")]),
    ):
        raise ZeroDivisionError
    assert store.read("b").state is State.UNKNOWN


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    status_writer: StatusWriter, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    status_writer.start()
    server.connected = False
    for n in range(3):
        status_writer.tell([succeeded(f"r{n}")])
        assert not status_writer.flush(LIMIT_S)
    server.connected = True
    assert eventually(lambda: status_writer.flush(LIMIT_S), timeout_s=LIMIT_S)
    events = [event_of(record) for record in caplog.records]
    assert events == ["redis.away", "redis.back"]


def test_what_waits_at_a_stop_is_still_told(
    status_writer: StatusWriter, store: StatusStore
) -> None:
    status_writer.start()
    status_writer.tell([succeeded(f"r{n}") for n in range(600)])
    assert status_writer.flush(LIMIT_S)
    assert state_of(store, "r599") is State.SUCCEEDED
