"""Redis came back empty: what was held and what has ended is told again, once for the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from fakeredis import FakeRedis, FakeServer

from consumer.journal import Claim, Finish, Journal, Leases, Work
from consumer.journal.losses.republish import Republication
from consumer.status import status_messages
from consumer.status import status_restore as module
from consumer.status.status_restore import StatusRestore
from feedback.logs import event_of
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.samples import SHA, delivery
from tests.eventually import eventually
from tests.feedback.samples import a_write
from tests.kit.databases import migrated

LIMIT_S = 60.0
HOUR_MS = 3_600_000
Told = Callable[[], list[int]]


@dataclass(slots=True)
class Group:
    """A group with a journal, a Redis that can come back empty, and republishers by worker."""

    url: str
    name: str
    ends: ExitStack
    server: FakeServer = field(default_factory=FakeServer)
    backlog: int = 0
    losses: list[str] = field(default_factory=list)

    @property
    def store(self) -> StatusStore:
        """The group's statuses."""
        return StatusStore(FakeRedis(server=self.server), self.name, RedisSection())

    def worker(self, worker_id: str, held: Sequence[StatusWrite] = ()) -> StatusRestore:
        """Return the started republisher of a worker that has a lease."""
        leases = Leases(self.url, group=self.name, worker_id=worker_id)
        leases.register(600.0)
        self.ends.callback(leases.close)
        made = StatusRestore(
            republication=Republication(self.url, group=self.name, worker_id=worker_id),
            store=self.store,
            holding=lambda: held,
            backlog=lambda: self.backlog,
            ttl_s=RedisSection().ttl_s,
            resend_after_s=30.0,
            lease_s=0.2,
            on_lost=lambda: self.losses.append(worker_id),
        )
        made.start()
        self.ends.callback(made.stop, LIMIT_S)
        return made

    def ended(self, *request_ids: str, state: str = "SUCCEEDED", resend: bool = False) -> None:
        """Let requests of a worker run and end."""
        journal = Journal(self.url, group=self.name, worker_id="somebody")
        deadline_at = int(time.time() * 1000) + HOUR_MS
        journal.apply(Work(claims=[_claim(one, deadline_at) for one in request_ids]))
        journal.apply(
            Work(finishes=[Finish(one, 1, state, None, None, '"x"', resend) for one in request_ids])
        )
        journal.close()

    def all_are(self, state: State, request_ids: Sequence[str]) -> bool:
        """Whether a client sees all of them in this state."""
        return {one.state for one in self.store.read_many(request_ids)} == {state}


def _claim(request_id: str, deadline_at: int) -> Claim:
    return Claim(request_id, "payments", 3, 17, None, SHA, 1, deadline_at, "marked")


@pytest.fixture
def crowd(journal_url: str, group: str) -> Iterator[Group]:
    """Yield a group without workers, on each kind of journal."""
    migrated(journal_url)
    with ExitStack() as ends:
        yield Group(journal_url, group, ends)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    """Return a function: how many endings each finished republication has told."""
    caplog.set_level("INFO", "onceward.republisher")

    def counts() -> list[int]:
        return [
            record.onceward_fields["count"]  # type: ignore[attr-defined]
            for record in caplog.records
            if event_of(record) == "statuses.republished"
        ]

    return counts


def test_a_worker_hears_once_that_another_redis_answers(crowd: Group) -> None:
    first = crowd.worker("first")
    for run_id in ("a.1", "a.1", "a.2", "a.2", ".2", "b.2"):
        first.redis_is(run_id)
    # Emptied, then another start; what it has told to the first one ever is what it tells to.
    assert crowd.losses == ["first", "first"]


def test_endings_are_told_again_by_one_worker_and_once(
    crowd: Group, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 20)
    ids = [f"r{number}" for number in range(60)]
    crowd.ended(*ids)
    workers = [crowd.worker(f"w{number}") for number in range(3)]
    for one in workers:
        one.redis_is("run-1")
    eventually(lambda: told() == [60], timeout_s=LIMIT_S)
    assert crowd.all_are(State.SUCCEEDED, ids)
    status = crowd.store.read("r7")
    assert (status.result, status.worker, status.partition, status.offset) == (
        "x",
        "somebody",
        3,
        17,
    )
    for one in workers:
        eventually(lambda one=one: one._served == "run-1", timeout_s=LIMIT_S)  # type: ignore[misc]
        one.redis_is("run-1")
    assert told() == [60]


def test_a_restarted_redis_is_served_anew_and_hears_what_every_worker_holds(
    crowd: Group, told: Told
) -> None:
    crowd.ended("ended")
    held = [status_messages.accepted(delivery("waits"), worker_id="w1")]
    held.append(status_messages.running(delivery("runs"), 1, worker_id="w1"))
    one, two = crowd.worker("w1", held), crowd.worker("w2")
    for each in (one, two):
        each.redis_is("run-1")
    eventually(lambda: told() == [1], timeout_s=LIMIT_S)
    assert crowd.store.read("runs").state is State.UNKNOWN
    FakeRedis(server=crowd.server).flushall()
    crowd.store.beat("w1", {})
    for each in (two, one):
        each.redis_is("run-2")
    eventually(lambda: crowd.all_are(State.SUCCEEDED, ["ended"]), timeout_s=LIMIT_S)
    eventually(lambda: crowd.all_are(State.RUNNING, ["runs"]), timeout_s=LIMIT_S)
    eventually(lambda: crowd.all_are(State.ACCEPTED, ["waits"]), timeout_s=LIMIT_S)
    deadlines = crowd.store.deadlines_key
    assert {b"waits", b"runs"} <= set(crowd.store.redis.zrange(deadlines, 0, -1))
    eventually(lambda: told() == [1, 1], timeout_s=LIMIT_S)


def test_a_turn_that_a_dead_worker_had_is_taken_by_the_next(crowd: Group, told: Told) -> None:
    crowd.ended("ended")
    leases = Leases(crowd.url, group=crowd.name, worker_id="dying")
    leases.register(600.0)
    dying = Republication(crowd.url, group=crowd.name, worker_id="dying")
    dying.take_turn("run-1")
    dying.close()
    one = crowd.worker("w1")
    one.redis_is("run-1")
    with pytest.raises(TimeoutError):
        eventually(lambda: told() == [1], timeout_s=0.5)
    leases.release()
    leases.close()
    eventually(lambda: told() == [1], timeout_s=LIMIT_S)


def test_redis_away_in_the_middle_is_waited_for(
    crowd: Group, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 10)
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    monkeypatch.setattr(module, "TRIES", 3)
    ids = [f"r{number}" for number in range(100)]
    crowd.ended(*ids)
    crowd.backlog = module.BACKLOG_LIMIT + 1
    one = crowd.worker("w1")
    one.redis_is("run-1")
    # After its first page it makes way for those who wait to be told.
    eventually(lambda: len(crowd.store.redis.keys("*:request:*")) == 10, timeout_s=LIMIT_S)
    crowd.server.connected = False
    crowd.backlog = 0
    other = crowd.worker("w2")
    other.redis_is("run-1")
    with pytest.raises(TimeoutError):
        eventually(lambda: told() == [100], timeout_s=1.0)
    crowd.server.connected = True
    eventually(lambda: told() == [100], timeout_s=LIMIT_S)
    assert crowd.all_are(State.SUCCEEDED, ids)


def test_a_page_waits_while_many_statuses_wait_to_be_told(
    crowd: Group, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    crowd.ended("a", "b", "c")
    crowd.backlog = module.BACKLOG_LIMIT + 1
    crowd.worker("w1").redis_is("run-1")
    # After its first page it makes way for those who wait to be told.
    eventually(lambda: len(crowd.store.redis.keys("*:request:*")) == 2, timeout_s=LIMIT_S)
    with pytest.raises(TimeoutError):
        eventually(lambda: told() == [3], timeout_s=0.5)
    crowd.backlog = 0
    eventually(lambda: told() == [3], timeout_s=LIMIT_S)


def test_the_journals_row_stands_over_what_another_payload_wrote_into_an_empty_redis(
    crowd: Group, told: Told
) -> None:
    crowd.ended("taken")
    crowd.store.write([a_write(State.PENDING, "taken")])
    crowd.worker("w1").redis_is("run-1")
    eventually(lambda: told() == [1], timeout_s=LIMIT_S)
    assert crowd.store.read("taken").payload_sha256 == SHA


def test_what_has_ended_is_looked_at_by_no_resender_also_where_a_resend_may_help(
    crowd: Group, told: Told
) -> None:
    crowd.ended("final")
    crowd.ended("open", state="FAILED", resend=True)
    crowd.worker("w1").redis_is("run-1")
    eventually(lambda: told() == [2], timeout_s=LIMIT_S)
    assert crowd.store.redis.zrange(crowd.store.deadlines_key, 0, -1) == []


def test_it_ends_in_the_middle_when_it_is_stopped(
    crowd: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 1)
    monkeypatch.setattr(module, "WORKED_SHARE", 1e-6)
    crowd.ended("a", "b", "c")
    one = crowd.worker("w1")
    one.redis_is("run-1")
    eventually(lambda: crowd.store.redis.keys("*:request:*"), timeout_s=LIMIT_S)
    one.stop(LIMIT_S)
    assert not one._thread.is_alive()
    # Its turn is free at once, although its lease is not over.
    other = Republication(crowd.url, group=crowd.name, worker_id="w2")
    assert other.take_turn("run-1") == "MINE"
    other.close()


def test_a_start_of_redis_that_may_not_be_asked_for_is_no_other_start(
    crowd: Group, caplog: pytest.LogCaptureFixture
) -> None:
    one = crowd.worker("w1")
    with caplog.at_level("WARNING"):
        for run_id in ("run-1.a", ".a", "run-1.a", ".b"):
            one.redis_is(run_id)
    assert [event_of(record) for record in caplog.records] == ["redis.emptied"]
