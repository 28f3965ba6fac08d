"""Redis killed, empty, full, hanging, slow: processing goes on, and statuses come right."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis as RedisClient

from feedback.errors import NotSent
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from onceward.servers.redis import Redis
from tests.consumer.conftest import MakeStage
from tests.consumer.gate import Gate
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.feedback.slow_line import slow_line
from tests.kit.load import Load
from tests.stack import Servers
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

RATE = 60.0
ONE_SLOT = {"processes": 1, "buffer_limit": 4}
# Much more than what is measured (see the assertions' comments): a busy machine is no finding.
LIMIT_S = 60.0


class Produced(Load):
    """Records of a program that knows nothing of Onceward; `sent` names their requests."""

    def __init__(self, stage: Stage, *, rate_per_s: float) -> None:
        super().__init__(self._produce, rate_per_s=rate_per_s)
        self.sent: list[str] = []
        self._stage = stage

    def _produce(self, _: int) -> None:
        self.sent.append(self._stage.produce(b'{"answer":"x"}').coordinates_id)


@pytest.fixture
def server() -> Iterator[Restartable]:
    """Yield a Redis that may fail; it comes back empty."""
    with restartable(Redis) as running:
        yield running


def stage_on(make_stage: MakeStage, servers: Servers, url: str, **facts: Any) -> Stage:
    """Return a stage whose leases outlast every pause of a busy machine."""
    given: dict[str, Any] = {
        "kafka": {"session_timeout_s": 20},
        "redis": {"heartbeat_ttl_s": 6},
        "journal": {"lease_s": 8},
        "worker": {"buffer_limit": 32},
    }
    return make_stage(servers=Servers(kafka=servers.kafka, redis=url), **given | facts)


def runs_grow(stage: Stage, *, by: int) -> None:
    """Wait until so many more requests have run."""
    before = len(stage.runs())
    eventually(lambda: len(stage.runs()) >= before + by, timeout_s=LIMIT_S, what=f"{by} more runs")


def all_told(stage: Stage, request_ids: list[str]) -> None:
    """Wait until all have succeeded for their clients.

    Nothing else is ever seen of them but that they wait, run, or are not known.
    """
    left = set(request_ids)
    open_states = {State.UNKNOWN, State.ACCEPTED, State.LOST, State.RUNNING}

    def look() -> bool:
        for one in stage.client.store.read_many(sorted(left)):
            if one.state is State.SUCCEEDED:
                assert one.result == "x"
                left.remove(one.request_id)
            else:
                assert one.state in open_states
        return not left

    eventually(look, timeout_s=LIMIT_S, interval_s=0.1, what=f"the end of {len(request_ids)}")


def ran_once(stage: Stage, request_ids: list[str]) -> bool:
    return sorted(run["request_id"] for run in stage.runs()) == sorted(request_ids)


@pytest.mark.long
def test_redis_is_killed_and_back_after_three_seconds_under_load(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    # One that is killed refuses at once: no second outage where the machine stands still.
    patient = {"heartbeat_ttl_s": 6, "timeout_s": 10}
    stage = stage_on(make_stage, servers, server.address, redis=patient)
    worker = stage.start()
    with Produced(stage, rate_per_s=RATE) as load:
        runs_grow(stage, by=40)
        with server.down():
            gone_s = time.monotonic()
            worker.told("redis.away")
            while time.monotonic() - gone_s < 3.0:
                runs_grow(stage, by=10)
        worker.told("redis.back")
        # Measured: 0.6 to 0.9 s after its return, with what was sent since among it.
        all_told(stage, list(load.sent))
    all_told(stage, load.sent)
    assert ran_once(stage, load.sent)
    assert (len(worker.events("redis.away")), len(worker.events("redis.back"))) == (1, 1)
    assert worker.stop() == 0


def test_redis_that_comes_back_empty_is_told_again_what_ended_and_what_is_held(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = stage_on(make_stage, servers, server.address, worker=ONE_SLOT, partitions=1)
    workers = [stage.start(), stage.start()]

    def republished() -> list[int]:
        events = [event for one in workers for event in one.events("statuses.republished")]
        return [event["count"] for event in events]

    # At their start there is nothing to tell, and one of them finds that out.
    eventually(lambda: republished() == [0], timeout_s=LIMIT_S)
    ended = [stage.produce(b'{"answer":"x"}').coordinates_id for _ in range(150)]
    all_told(stage, ended)
    gate, running, waiting = one_runs_and_three_wait(stage)
    held = [running, *waiting]

    with server.down():
        pass
    stage.seen(running, State.RUNNING)
    for one in waiting:
        found = stage.seen(one, State.ACCEPTED)
        assert found.topic == stage.topics["work"]
    all_told(stage, ended)
    store = stage.client.store
    assert store.redis.exists(store.journal_key)
    assert set(store.redis.zrange(store.deadlines_key, 0, -1)) == {one.encode() for one in held}

    eventually(lambda: sum(republished()) == 150, timeout_s=LIMIT_S)
    gate.open()
    all_told(stage, held)
    assert ran_once(stage, ended + held)
    assert [one.stop() for one in workers] == [0, 0]


def test_a_full_redis_stops_nobody_and_is_told_everything_when_it_has_room(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = stage_on(make_stage, servers, server.address)
    worker = stage.start()
    before = stage.client.send({"answer": "x"}, topic=stage.topics["work"])
    assert before.wait(LIMIT_S).result == "x"
    with RedisClient.from_url(server.address) as admin, Produced(stage, rate_per_s=RATE) as load:
        admin.config_set("maxmemory-policy", "noeviction")
        admin.config_set("maxmemory", 1)
        assert "maxmemory" in worker.told("redis.away")["reason"]
        runs_grow(stage, by=60)
        assert before.status().state is State.SUCCEEDED
        with pytest.raises(NotSent, match="raise its maxmemory"):
            stage.client.send({"answer": "x"}, topic=stage.topics["work"])
        # Nobody takes the worker for dead.
        store = stage.client.store
        runs_grow(stage, by=10)
        assert store.redis.exists(store.worker_key(worker.worker_id))
        admin.config_set("maxmemory", 0)
        worker.told("redis.back")
    all_told(stage, load.sent)
    assert ran_once(stage, [before.request_id, *load.sent])
    assert worker.events("status.not_told") == []
    assert worker.stop() == 0


def test_a_redis_that_hangs_stops_nobody(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = stage_on(make_stage, servers, server.address)
    worker = stage.start()
    with Produced(stage, rate_per_s=RATE) as load:
        runs_grow(stage, by=20)
        with server.paused():
            worker.told("redis.away")
            # Within the timeout of one write, at most, the intake has noticed too.
            runs_grow(stage, by=30)
            # Measured: as fast as they are sent.
            runs_grow(stage, by=100)
            lease = "SELECT lease_until FROM onceward_worker"
            ((first,),) = stage.execute(lease)
            eventually(lambda: stage.execute(lease)[0][0] > first, timeout_s=LIMIT_S)
        worker.told("redis.back")
    all_told(stage, load.sent)
    assert ran_once(stage, load.sent)
    assert worker.events("lease.renewed_again") == []
    assert worker.stop() == 0


def test_a_redis_that_somebody_emptied_is_noticed_and_told_all_again(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = stage_on(make_stage, servers, server.address)
    worker = stage.start()
    ended = [stage.produce(b'{"answer":"x"}').coordinates_id for _ in range(20)]
    all_told(stage, ended)
    stage.client.store.redis.flushall()
    worker.told("redis.emptied")
    all_told(stage, ended)
    assert worker.events("redis.restarted") == []
    assert worker.stop() == 0


def test_a_worker_ends_in_order_although_redis_hangs(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = stage_on(make_stage, servers, server.address)
    worker = stage.start()
    with Produced(stage, rate_per_s=RATE):
        runs_grow(stage, by=20)
    with server.paused():
        runs = stage.produce(b'{"answer":"x"}').coordinates_id
        eventually(lambda: stage.runs(runs), timeout_s=LIMIT_S)
        worker.told("redis.away")
        # Measured: 2.5 s.
        assert worker.stop() == 0
        assert stage.execute("SELECT * FROM onceward_worker") == []
    # What it could not tell is told by the next.
    stage.start()
    all_told(stage, [runs])


@pytest.mark.long
def test_a_redis_that_answers_after_half_a_second_costs_neither_requests_nor_lives(
    make_stage: MakeStage, servers: Servers, redis_url: str
) -> None:
    with slow_line(redis_url) as line:
        # Half a second of this is the line's, the rest is for a machine that stands still.
        patient = {"heartbeat_ttl_s": 6, "timeout_s": 10}
        stage = stage_on(make_stage, servers, line.url, redis=patient)
        worker = stage.start()
        direct = StatusStore(connect(RedisSection(url=redis_url)), stage.group, RedisSection())
        with Produced(stage, rate_per_s=200) as load:
            runs_grow(stage, by=50)
            line.delay_s = 0.5
            runs_grow(stage, by=50)
            # Measured: as fast as they are sent; up to 290/s with a backlog, of 355/s otherwise.
            runs_grow(stage, by=400)
            assert direct.redis.exists(direct.worker_key(worker.worker_id))
            assert stage.members()
        all_told(stage, load.sent)
        assert ran_once(stage, load.sent)
        for event in ("redis.away", "lease.renewed_again", "kafka.away", "commit.failed"):
            assert worker.events(event) == []
        direct.close()
        assert worker.stop() == 0


def one_runs_and_three_wait(stage: Stage) -> tuple[Gate, str, list[str]]:
    """Return the gate at which a request runs, its id, and those that wait for its slot."""
    gate = stage.gate()
    value = b'{"gate":"%s","answer":"x"}' % gate.path.encode()
    running, *waiting = [stage.produce(value).coordinates_id for _ in range(4)]
    stage.seen(running, State.RUNNING)
    for one in waiting:
        stage.seen(one, State.ACCEPTED)
    return gate, running, waiting


def test_what_a_draining_worker_gives_up_is_lost_at_once_although_redis_is_slow(
    make_stage: MakeStage, servers: Servers, redis_url: str
) -> None:
    with slow_line(redis_url) as line:
        stage = stage_on(make_stage, servers, line.url, worker=ONE_SLOT, partitions=1)
        worker = stage.start()
        gate, running, waiting = one_runs_and_three_wait(stage)
        line.delay_s = 0.5
        worker.send(signal.SIGTERM)
        worker.told("worker.draining")
        gate.open()
        assert worker.wait() == 0
        line.delay_s = 0.0
        assert {one.state for one in stage.client.store.read_many(waiting)} == {State.LOST}
        assert stage.client.status(running).state is State.SUCCEEDED


def test_what_a_draining_worker_gives_up_is_lost_although_redis_was_away(
    make_stage: MakeStage, servers: Servers
) -> None:
    with restartable(lambda: Redis(keeps_data=True)) as server:
        stage = stage_on(make_stage, servers, server.address, worker=ONE_SLOT, partitions=1)
        worker = stage.start()
        gate, running, waiting = one_runs_and_three_wait(stage)
        with server.down():
            worker.send(signal.SIGTERM)
            worker.told("worker.draining")
            gate.open()
            assert worker.wait() == 0
        # Nobody could say that the worker gave them up, but it has no heartbeat any more.
        for one in waiting:
            stage.seen(one, State.LOST)
        assert stage.client.status(running).state is State.RUNNING
        stage.start()
        all_told(stage, [running])


def test_redis_that_comes_back_with_its_data_keeps_every_outcome(
    make_stage: MakeStage, servers: Servers
) -> None:
    with restartable(lambda: Redis(keeps_data=True)) as server:
        stage = stage_on(make_stage, servers, server.address)
        worker = stage.start()
        ended = [stage.produce(b'{"answer":"x"}').coordinates_id for _ in range(50)]
        all_told(stage, ended)
        with server.down():
            pass
        assert {one.state for one in stage.client.store.read_many(ended)} == {State.SUCCEEDED}
        worker.told("redis.restarted")
        eventually(
            lambda: [one["count"] for one in worker.events("statuses.republished")] == [0, 50],
            timeout_s=LIMIT_S,
        )
        assert {one.state for one in stage.client.store.read_many(ended)} == {State.SUCCEEDED}
        assert worker.stop() == 0
