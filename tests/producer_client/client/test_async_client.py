"""What only the client for asyncio has to keep: a loop that never waits, few threads and
connections for any number of tasks, and nothing left behind by what is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.records.envelope import Record, decode_headers
from feedback.redis.async_store import CONNECTIONS
from feedback.status import State
from producer_client import AsyncClient, Submission
from producer_client.sending import send_flow
from producer_client.sending.async_sender import ROOMS
from producer_client.sending.send_batches import BATCH, BATCHES_IN_FLIGHT
from tests.eventually import HANG_S
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.rounds import in_time
from tests.standstill import standing_still

Records = Callable[[], list[Record]]

# More than a send takes until Kafka has its record.
TURNS_OF_A_SEND = 60
TICK_S = 0.01
# A send that blocked would hold the loop for its whole time limit.
TIMEOUT_S = 2.0
# One that is to be seen on its way, by a test that stands still for seconds, goes on for longer.
LONG_S = 8.0
GAP_AT_MOST_S = 1.0
TASKS = 1000


class OwnThreads:
    """The threads of one test: others may leave theirs in this process for a while."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def named(self, beginning: str) -> list[threading.Thread]:
        """Return those with a name that begins so."""
        new = [one for one in threading.enumerate() if one not in self._before]
        return [one for one in new if one.name.startswith(beginning)]

    def end(self) -> None:
        """Wait for the end of all of ours."""
        for one in self.named("onceward"):
            one.join(30)
        assert self.named("onceward") == []


@pytest.fixture
def threads() -> OwnThreads:
    return OwnThreads()


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """Yield the gaps between the ticks of a task beside, in seconds."""
    gaps: list[float] = []

    async def tick() -> None:
        before_s = monotonic_s()
        while True:
            await asyncio.sleep(TICK_S)
            gaps.append(monotonic_s() - before_s)
            before_s = monotonic_s()

    task = asyncio.create_task(tick())
    try:
        yield gaps
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _never_held_up(*calls: Coroutine[Any, Any, object]) -> list[object]:
    """Return what calls end with, which must take their time and leave the loop to others."""
    began_s = monotonic_s()
    with standing_still() as stood:
        async with ticking() as gaps:
            ended = await asyncio.gather(*calls, return_exceptions=True)
    assert monotonic_s() - began_s > TIMEOUT_S * 0.8
    assert max(gaps) < GAP_AT_MOST_S + stood.longest_s
    return list(ended)


@pytest.mark.parametrize("away", ["refusing", "mute"])
def test_the_loop_goes_on_while_kafka_is_away(
    make_settings: MakeSettings, worker: Worker, request: pytest.FixtureRequest, away: str
) -> None:
    address = request.getfixturevalue(away)
    settings = make_settings(kafka={"bootstrap_servers": address}, send_timeout_s=TIMEOUT_S)

    async def main() -> None:
        async with AsyncClient(settings) as client:
            ended = await _never_held_up(*(client.send(b"v") for _ in range(50)))
        for one in ended:
            if isinstance(one, SendUnknown):
                raise one
        assert {type(one) for one in ended} == {NotSent}
        assert all(f"Kafka at {address}" in str(one) for one in ended)

    def one_round() -> None:
        try:
            asyncio.run(main())
        except SendUnknown:
            worker.lose_all()
            raise
        assert worker.traces() == []

    # While the machine stands still Redis does not answer in time that a request was taken back.
    in_time(one_round, limit_s=HANG_S, noise=(SendUnknown,))


def test_the_loop_goes_on_while_redis_hangs(make_settings: MakeSettings, mute: str) -> None:
    settings = make_settings(redis={"url": f"redis://{mute}/0", "timeout_s": TIMEOUT_S})

    async def main() -> None:
        async with AsyncClient(settings) as client:
            ended = await _never_held_up(
                *(client.send(b"v") for _ in range(50)),
                client.send(b"v", request_id="r1"),
                client.status("r1"),
                client.wait("r1", timeout_s=0.1),
            )
        kinds = [type(one) for one in ended]
        # It let nobody in, so it was told nothing; whether an id was sent before, nobody can ask.
        assert set(kinds[:50]) == {NotSent}
        assert kinds[50:] == [SendUnknown, RedisUnavailable, RedisUnavailable]

    asyncio.run(main())


def test_a_topic_that_is_away_holds_up_no_other(make_settings: MakeSettings) -> None:
    settings = make_settings(send_timeout_s=LONG_S)

    async def main() -> None:
        async with AsyncClient(settings) as client:
            await client.send(b"the first connects")
            away = [
                asyncio.create_task(client.send(b"v", topic=f"nowhere-{number % (ROOMS - 1)}"))
                for number in range(20)
            ]
            await asyncio.sleep(0)
            for _ in range(20):
                await client.send(b"v")
            assert not any(one.done() for one in away)
            ended = await asyncio.gather(*away, return_exceptions=True)
            assert {type(one) for one in ended} == {NotSent}

    asyncio.run(main())


def test_a_thousand_tasks_share_few_threads_and_connections(
    make_settings: MakeSettings, records: Records, worker: Worker
) -> None:
    before = threading.active_count()
    most_threads = most_clients = 0
    redis_port = urlsplit(make_settings().redis.url).port

    def clients() -> int:
        """Return how many connections to Redis this process has; others have theirs."""
        found = psutil.Process().net_connections("tcp")
        return sum(bool(one.raddr) and one.raddr.port == redis_port for one in found)

    others = clients()

    async def main() -> None:
        nonlocal most_threads, most_clients
        async with AsyncClient(make_settings(send_timeout_s=30)) as client:

            async def send(number: int) -> None:
                nonlocal most_threads, most_clients
                await client.send(b"v", request_id=f"r{number}")
                most_threads = max(most_threads, threading.active_count())
                if number % 100 == 0:
                    most_clients = max(most_clients, clients())

            await asyncio.gather(*map(send, range(TASKS)))
            ids = [f"r{number}" for number in range(TASKS)]
            states = {one.state for one in await client.store.read_many(ids)}
            assert states == {State.PENDING}

    asyncio.run(main())
    found = sorted(decode_headers(record).request_id for record in records())
    assert found == sorted(f"r{number}" for number in range(TASKS))
    # The producer's own, ours, and those that open a topic.
    assert most_threads - before <= 2 + ROOMS
    # A thousand tasks of their own would have a thousand.
    assert 0 < most_clients - others <= CONNECTIONS


def test_a_send_that_is_cancelled_before_its_record_went_leaves_no_trace(
    make_settings: MakeSettings, worker: Worker, mute: str
) -> None:
    # Where Redis does not answer in time, the word about the first is another one.
    patient = {"timeout_s": 30}
    settings = make_settings(
        kafka={"bootstrap_servers": mute}, redis=patient, send_timeout_s=LONG_S
    )

    async def main() -> None:
        async with AsyncClient(settings) as client:
            # The first is in the hands of the thread that connects: nobody knows of it.
            first = asyncio.create_task(client.send(b"v", request_id="first"))
            await _until_pending(client, "first")
            second = asyncio.create_task(client.send(b"v", request_id="second"))
            await _until_pending(client, "second")
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            while (await client.status("second")).state is not State.UNKNOWN:
                await asyncio.sleep(TICK_S)
            with pytest.raises(NotSent):
                await first

    asyncio.run(main())
    assert worker.traces() == []


def test_a_send_that_is_cancelled_with_its_record_on_the_way_stays_pending(
    make_settings: MakeSettings, worker: Worker, mute: str, threads: OwnThreads
) -> None:
    settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=LONG_S)

    async def main() -> None:
        async with AsyncClient(settings) as client:
            sending = asyncio.create_task(client.send(b"v", request_id="r1"))
            await _until_pending(client, "r1")
            # Its ticket is taken by the thread that connects.
            while not threads.named("onceward-topics"):
                await asyncio.sleep(TICK_S)
            await asyncio.sleep(0.1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert (await client.status("r1")).state is State.PENDING

    asyncio.run(main())
    assert worker.store.read("r1").state is State.PENDING
    assert worker.store.kept_payload("r1") is not None
    assert worker.looked_at("r1") is not None
    threads.end()


def test_a_send_that_is_cancelled_takes_nothing_back_of_its_twin(
    make_settings: MakeSettings, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of one millisecond, they name the same deadline.
    now_ms = epoch_ms()
    monkeypatch.setattr(send_flow, "epoch_ms", lambda: now_ms)

    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            await client.send(b"v", request_id="before")
            for turns in range(TURNS_OF_A_SEND):
                one, twin = (
                    asyncio.create_task(client.send(b"v", request_id=f"r{turns}")) for _ in "ab"
                )
                for _ in range(turns):
                    await asyncio.sleep(0)
                one.cancel()
                await twin

    asyncio.run(main())
    ids = [f"r{turns}" for turns in range(TURNS_OF_A_SEND)]
    assert {one: worker.store.read(one).state for one in ids} == dict.fromkeys(ids, State.PENDING)
    assert [one for one in ids if worker.store.kept_payload(one) is None] == []


@pytest.mark.parametrize("step", ["forget", "memory"])
def test_a_send_that_is_cancelled_while_it_is_taken_back_takes_nothing_back_again(
    make_settings: MakeSettings,
    worker: Worker,
    refusing: str,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """The next PENDING of the same facts is another sending's.

    Redis has done it, and the answer to that, or to the question after it, is on its way.
    """
    settings = make_settings(kafka={"bootstrap_servers": refusing}, send_timeout_s=1)
    forgotten: list[str] = []

    async def main() -> None:
        async with AsyncClient(settings) as client:
            statuses, is_done = client._way._statuses, asyncio.Event()
            forget, asked = statuses.forget, getattr(statuses, step)

            async def counted(request_id: str, **given: Any) -> bool:
                forgotten.append(request_id)
                return await forget(request_id, **given)

            async def late(*given: Any, **named: Any) -> Any:
                await (counted if step == "forget" else asked)(*given, **named)
                is_done.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(statuses, "forget", counted)
            monkeypatch.setattr(statuses, step, late)
            monkeypatch.setattr(
                client._way, "_on_taken_back", lambda one: forgotten.append("once more")
            )
            sending = asyncio.create_task(client.send(b"v", request_id="r1"))
            await is_done.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            monkeypatch.undo()
            assert await client.doubt("r1") is not None

    asyncio.run(main())
    assert forgotten == ["r1"]
    assert worker.traces() == []


def test_a_wait_that_is_cancelled_leaves_nothing(
    make_settings: MakeSettings, worker: Worker
) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings(poll_interval_s=3600)) as client:
            handle = await client.send(b"v")
            channel = worker.store.events_channel(handle.request_id)
            before = asyncio.all_tasks()
            waits = [asyncio.create_task(handle.wait()) for _ in range(3)]

            def listeners() -> int:
                ((_, found),) = worker.store.redis.pubsub_numsub(channel)
                return int(found)

            while not listeners():
                await asyncio.sleep(TICK_S)
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            while listeners():
                await asyncio.sleep(TICK_S)
            listening = {"onceward-events", "onceward-reading", "onceward-subscribing"}
            # What was being asked for them ends by itself.
            while {one.get_name() for one in asyncio.all_tasks() - before} - listening:
                await asyncio.sleep(TICK_S)
            # And whoever waits afterwards is still woken, long before the next poll.
            again = asyncio.create_task(handle.wait(3600))
            while not listeners():
                await asyncio.sleep(TICK_S)
            worker.tell(handle.request_id, State.SUCCEEDED)
            assert (await asyncio.wait_for(again, HANG_S)).state is State.SUCCEEDED
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_wait_that_is_cancelled_takes_its_resend_with_it(
    make_settings: MakeSettings, worker: Worker, mute: str, threads: OwnThreads
) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            handle = await client.send(b"v", request_id="r1")
            worker.accept("r1")
        kafka = {"bootstrap_servers": mute}
        async with AsyncClient(make_settings(kafka=kafka, send_timeout_s=LONG_S)) as cut_off:
            waiting = asyncio.create_task(cut_off.wait("r1"))
            # In the hands of the thread that connects: it cannot be taken back any more.
            while not threads.named("onceward-topics"):
                await asyncio.sleep(TICK_S)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert "onceward-resend" not in {one.get_name() for one in asyncio.all_tasks()}
            # A resend removes nothing; once its time is over it shows again what stood before.
            assert (await cut_off.status("r1")).state in (State.PENDING, State.LOST)
            assert await cut_off.store.kept_payload("r1") == handle.payload

    asyncio.run(main())


def test_a_resend_that_ends_with_its_wait_before_its_record_went_shows_again_what_stood_before(
    make_settings: MakeSettings, worker: Worker, mute: str
) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            await client.send(b"v", request_id="r1")
            worker.accept("r1")
            before = await client.status("r1")
            assert before.state is State.LOST
        kafka = {"bootstrap_servers": mute}
        async with AsyncClient(make_settings(kafka=kafka, send_timeout_s=LONG_S)) as cut_off:
            # It is in the hands of the thread that connects, and the resend waits behind it.
            first = asyncio.create_task(cut_off.send(b"v", request_id="first"))
            await _until_pending(cut_off, "first")
            waiting = asyncio.create_task(cut_off.wait("r1"))
            while (await cut_off.status("r1")).attempt < 2:
                await asyncio.sleep(TICK_S)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            while await cut_off.status("r1") != before:
                await asyncio.sleep(TICK_S)
            assert not first.done()
            await asyncio.gather(first, return_exceptions=True)

    asyncio.run(main())


def test_many_are_sent_from_an_asynchronous_source_with_a_bounded_number_ahead(
    make_settings: MakeSettings, records: Records
) -> None:
    async def main() -> None:
        taken = 0

        async def numbered() -> AsyncIterator[Submission]:
            nonlocal taken
            for number in range(1_000):
                await asyncio.sleep(0)
                taken += 1
                yield Submission(b"%d" % number, request_id=f"r{number}")

        async with AsyncClient(make_settings()) as client:
            ahead, ids = [], []
            async for result in client.send_many(numbered()):
                assert result.sent
                ids.append(result.request_id)
                ahead.append(taken - len(ids))
        assert ids == [f"r{number}" for number in range(1_000)]
        assert max(ahead) < BATCH * BATCHES_IN_FLIGHT

    asyncio.run(main())
    assert [record.value for record in records()] == [b"%d" % number for number in range(1_000)]


def test_the_rate_of_many_is_not_exceeded(make_settings: MakeSettings) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            await client.send(b"the first connects")
            began_s = monotonic_s()
            numbered = (Submission(b"v") for _ in range(100))
            assert len([one async for one in client.send_many(numbered, rate=200)]) == 100
            assert monotonic_s() - began_s > 0.45

    asyncio.run(main())


def test_a_resend_that_hangs_in_kafka_ends_with_its_wait(
    make_settings: MakeSettings, worker: Worker, mute: str, threads: OwnThreads
) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            await client.send(b"v", request_id="r1")
            worker.accept("r1")
        settings = make_settings(kafka={"bootstrap_servers": mute}, send_timeout_s=LONG_S)
        async with AsyncClient(settings) as cut_off:
            waiting = asyncio.create_task(cut_off.wait("r1", timeout_s=LONG_S / 4))
            while not threads.named("onceward-topics"):
                await asyncio.sleep(TICK_S)
            with pytest.raises((WaitTimeout, RedisUnavailable)):
                await waiting
            # The resend is still on its way.
            assert len(threads.named("onceward-topics")) == 1

    asyncio.run(main())


def test_closing_ends_every_thread_and_task(
    make_settings: MakeSettings, threads: OwnThreads
) -> None:
    async def main() -> None:
        async with AsyncClient(make_settings()) as client:
            await asyncio.gather(*(client.send(b"v") for _ in range(20)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    threads.end()


async def _until_pending(client: AsyncClient, request_id: str) -> None:
    while (await client.status(request_id)).state is not State.PENDING:
        await asyncio.sleep(TICK_S)
