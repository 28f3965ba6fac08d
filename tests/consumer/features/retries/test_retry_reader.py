"""The retry topics on a real broker: nothing is early, little is late, none is lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from consumer.features.pausing.circuit_breaker import CircuitBreaker
from consumer.features.pausing.pausing import Pausing
from consumer.features.retries import retry_reader
from consumer.features.retries.headers import DueWakeUp, WakeUp, read_wakeup, retry_topics
from consumer.features.retries.retry_reader import RetryReader
from consumer.features.retries.retry_sender import wakeup_record
from consumer.handlers.backoff import Tiers as Delays
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer, Received
from consumer.journal.pauses import PauseRow
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.source import CommitFailed, KafkaSource
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.values import Partition
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import KafkaSection, load
from tests.consumer.cores import core_of
from tests.consumer.samples import delivery, payments
from tests.eventually import HANG_S, eventually
from tests.rounds import holds_in_one_round
from tests.stack import Servers
from tests.standstill import standing_still

pytestmark = pytest.mark.waits

LATE_MS = 250
SESSION_S = 6
# Enough for a rebalance within it, also on a machine that stands still for a while.
LONG_MS = 20_000


class HandedOn(NamedTuple):
    """A retry that was handed on: how long after it was due, and by whom."""

    request_id: str
    late_ms: int
    by: int


class Timed(Buffer):
    """A buffer that takes what it is given, and notes when."""

    def __init__(self, due: dict[str, int], heard: list[HandedOn], by: int) -> None:
        super().__init__(1000)
        self._due = due
        self._heard = heard
        self._by = by

    def put(self, received: Iterator[Received]) -> None:  # type: ignore[override]
        now_ms = epoch_ms()
        for one in received:
            assert isinstance(one, Delivery)
            late_ms = now_ms - self._due[one.request_id]
            self._heard.append(HandedOn(one.request_id, late_ms, self._by))


class Ground:
    """One group's retry topics, and readers of them."""

    def __init__(
        self, servers: Servers, topic: str, group: str, *, retries: str, session_s: float
    ) -> None:
        self.kafka = KafkaSection(
            bootstrap_servers=servers.kafka, group=group, session_timeout_s=session_s
        )
        self.handler = payments(retry_on=(OSError,), retries=Delays.parse(retries))
        object.__setattr__(self.handler, "topic", topic)
        self.topics = retry_topics([self.handler], group)
        self.due: dict[str, int] = {}
        self.heard: list[HandedOn] = []
        self.faults: list[BaseException] = []
        self.pausing = Pausing(guard=CircuitBreaker(share=0, window=1, probes=1), topics=(topic,))
        self._readers: list[RetryReader] = []
        self._sources: list[KafkaSource] = []
        made = KafkaTopics(self.kafka, create=True)
        for name in self.topics:
            made.ensure(name, like=topic)
        self._writer = KafkaWriter(self.kafka)

    def send(self, names: list[str], *, delay_ms: int, partition: int = 0) -> None:
        """Send wake-ups that are due after a delay."""
        records = []
        for name in names:
            due_at = epoch_ms() + delay_ms
            self.due[name] = due_at
            one = delivery(name)
            record = one.record._replace(partition=partition, topic=self.handler.topic)
            one = one._replace(handler=self.handler, record=record)
            wakeup = WakeUp(one, 1, due_at, delay_ms, "C", None, 1, 1, 1)
            records.append(wakeup_record(wakeup, group=self.kafka.group))
        assert self._writer.write(records) == [None] * len(names)

    def read(
        self, make_source: Callable[..., KafkaSource] = KafkaSource
    ) -> tuple[RetryReader, KafkaSource]:
        """Start a reader; it has partitions when this returns."""
        opened: list[KafkaSource] = []

        def open_source() -> KafkaSource:
            opened.append(make_source(self.kafka, tuple(self.topics)))
            return opened[0]

        core = core_of(
            load(),
            wake=lambda: None,
            on_end=lambda fault: self.faults.append(fault) if fault else None,
            gates=[self.pausing],
        )
        reader = RetryReader(
            core,
            topics=self.topics,
            buffer=Timed(self.due, self.heard, len(self._readers)),
            open_source=open_source,
        )
        self._readers.append(reader)
        reader.start()
        eventually(lambda: opened and opened[0].assigned(), timeout_s=30)
        return reader, opened[0]

    def all_heard(self, timeout_s: float = HANG_S) -> dict[str, list[HandedOn]]:
        """Return what was handed on, by request, when each was."""
        eventually(
            lambda: self.due.keys() <= {one.request_id for one in self.heard}, timeout_s=timeout_s
        )
        found: dict[str, list[HandedOn]] = {}
        for one in self.heard:
            found.setdefault(one.request_id, []).append(one)
        return found

    def close(self) -> None:
        """Stop all readers."""
        for reader in self._readers:
            reader.leave()
        for reader in self._readers:
            assert reader.has_left(60)
        self._writer.close()
        assert self.faults == []


MakeGround = Callable[..., Ground]


@pytest.fixture
def make_ground(servers: Servers, topic: Callable[..., str], group: str) -> Iterator[MakeGround]:
    """Return a factory of grounds whose readers end with the test."""
    made: list[Ground] = []

    def make(retries: str, partitions: int = 2, session_s: float = SESSION_S) -> Ground:
        made.append(Ground(servers, topic(partitions), group, retries=retries, session_s=session_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_nothing_is_early_and_little_is_late(make_ground: MakeGround) -> None:
    ground = make_ground("400ms, 1s")
    ground.read()
    rounds = itertools.count()

    def late_ms() -> tuple[list[int], float]:
        """Return how late each of a round was, which come as others of it are still sent.

        And how long Kafka took for the slowest of them.
        """
        number, took_ms = next(rounds), []
        names = [[f"{number}-short-{at}", f"{number}-long-{at}"] for at in range(60)]
        for at, (short, long) in enumerate(names):
            began_s = time.monotonic()
            ground.send([short], delay_ms=400, partition=at % 2)
            ground.send([long], delay_ms=1000, partition=at % 2)
            took_ms.append((time.monotonic() - began_s) * 1000)
            time.sleep(0.02)
        heard = ground.all_heard()
        return sorted(heard[name][0].late_ms for both in names for name in both), max(took_ms)

    def one_round() -> None:
        with standing_still() as stood:
            late, slowest_ms = late_ms()
        # Beside what this machine makes of Kafka and of threads in the same seconds.
        noise_ms = slowest_ms + stood.longest_s * 1000
        assert late[int(len(late) * 0.99)] <= LATE_MS + noise_ms

    holds_in_one_round(one_round)
    heard = ground.all_heard()
    assert all(len(ones) == 1 and ones[0].late_ms >= 0 for ones in heard.values())


def test_a_drawn_delay_overtakes_a_longer_one_of_the_same_topic(make_ground: MakeGround) -> None:
    ground = make_ground("2s", partitions=1)
    ground.read()
    rounds = itertools.count()

    def one_round() -> None:
        long, short = (f"{kind}-{next(rounds)}" for kind in ("long", "short"))
        ground.heard.clear()
        ground.due.clear()
        with standing_still() as stood:
            ground.send([long], delay_ms=1800)
            ground.send([short], delay_ms=300)
            heard = ground.all_heard()
        assert all(ones[0].late_ms >= 0 for ones in heard.values())
        assert [one.request_id for one in ground.heard] == [short, long]
        late_ms = LATE_MS + stood.total_s * 1000
        assert all(ones[0].late_ms <= late_ms for ones in heard.values())

    # A machine that stands still hands both on at once, in the order of their topic.
    holds_in_one_round(one_round)


def test_a_tier_that_is_revoked_inside_its_delay_goes_on_at_its_next_owner(
    make_ground: MakeGround,
) -> None:
    ground = make_ground("20s", session_s=4 * HANG_S)
    first, _ = ground.read()
    names = [f"r{at}" for at in range(40)]
    ground.send(names[:20], delay_ms=LONG_MS, partition=0)
    ground.send(names[20:], delay_ms=LONG_MS, partition=1)
    _, second = ground.read()
    assert len(second.assigned()) == 1
    first.leave()
    assert first.has_left(60)
    heard = ground.all_heard()
    assert {one.by for ones in heard.values() for one in ones} == {1}
    assert all(len(ones) == 1 for ones in heard.values())
    # A rebalance may take as long as a heartbeat; a session, which nobody waits for, is longer.
    assert all(0 <= ones[0].late_ms < 1000 * HANG_S for ones in heard.values())


def test_what_was_revoked_is_left_to_its_next_owner(make_ground: MakeGround) -> None:
    # Nobody's session ends meanwhile: what goes from one to the other goes by the rebalance.
    ground = make_ground("20s", session_s=4 * HANG_S)
    _, first = ground.read()
    for partition in (0, 1):
        names = [f"{partition}-{at}" for at in range(10)]
        ground.send(names, delay_ms=LONG_MS, partition=partition)
    eventually(lambda: len(first.assigned()) == 2, timeout_s=30)
    _, second = ground.read()
    eventually(lambda: len(first.assigned()) == len(second.assigned()) == 1, timeout_s=30)
    heard = ground.all_heard()
    assert {len(ones) for ones in heard.values()} == {1}
    assert {ones[0].by for ones in heard.values()} == {0, 1}
    assert all(ones[0].late_ms >= 0 for ones in heard.values())


def test_a_tier_that_had_no_owner_past_its_delay_goes_on_at_once(make_ground: MakeGround) -> None:
    ground = make_ground("8s")
    first, _ = ground.read()
    # It has left by then, also where the machine stands still meanwhile.
    ground.send([f"r{at}" for at in range(20)], delay_ms=8000)
    first.leave()
    assert first.has_left(60)
    assert ground.heard == []
    eventually(lambda: epoch_ms() > max(ground.due.values()))
    ground.read()
    heard = ground.all_heard()
    assert all(len(ones) == 1 for ones in heard.values())


def test_what_was_handed_on_is_not_read_again_by_the_next_owner(make_ground: MakeGround) -> None:
    ground = make_ground("200ms", partitions=1)
    first, _ = ground.read()
    ground.send(["a", "b"], delay_ms=200)
    ground.all_heard()
    first.leave()
    assert first.has_left(60)
    ground.read()
    ground.send(["c"], delay_ms=200)
    heard = ground.all_heard()
    assert {name: len(ones) for name, ones in heard.items()} == {"a": 1, "b": 1, "c": 1}


class Doubtful(KafkaSource):
    """A source whose first commit is refused; what is committed, nobody says until it is told.

    Attributes:
        asked: how often it was asked for what is committed.
        says: set when it is to be told.
    """

    def __init__(self, settings: KafkaSection, topics: Sequence[str]) -> None:
        super().__init__(settings, topics)
        self.asked = 0
        self.says = threading.Event()
        self._is_refusing = True

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Refuse the first one."""
        if self._is_refusing:
            self._is_refusing = False
            raise CommitFailed("the coordinator is moving")
        super().commit(offsets)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Answer when it is told."""
        self.asked += 1
        if not self.says.is_set():
            raise KafkaUnavailable("the coordinator is moving")
        return super().committed(partitions)


def test_a_partition_of_which_nobody_says_what_is_committed_waits_and_is_read_on_from_there(
    make_ground: MakeGround,
) -> None:
    ground = make_ground("200ms")
    first, _ = ground.read()
    ground.send(["a", "b"], delay_ms=200)
    ground.all_heard()
    first.leave()
    assert first.has_left(60)
    ground.heard.clear()
    _, source = ground.read(Doubtful)
    assert isinstance(source, Doubtful)
    ground.send(["c"], delay_ms=200)
    eventually(lambda: source.asked)
    ground.send(["other"], delay_ms=200, partition=1)
    eventually(lambda: ground.heard, timeout_s=30)
    assert [one.request_id for one in ground.heard] == ["other"]
    source.says.set()
    eventually(lambda: len(ground.heard) >= 2, timeout_s=30)
    ground.send(["d"], delay_ms=200)
    eventually(lambda: ground.heard[-1].request_id == "d", timeout_s=30)
    assert [one.request_id for one in ground.heard] == ["other", "c", "d"]
    assert source.asked >= 2


def test_more_than_is_held_at_a_time_comes_through(make_ground: MakeGround) -> None:
    ground = make_ground("300ms", partitions=1)
    ground.read()
    names = [f"r{at}" for at in range(700)]
    ground.send(names, delay_ms=300)
    heard = ground.all_heard()
    assert all(len(ones) == 1 and ones[0].late_ms >= 0 for ones in heard.values())
    assert heard.keys() == set(names)


def test_a_reader_that_is_held_up_between_two_clocks_is_late_and_not_early(
    make_ground: MakeGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held_up(*given: Any, **named: Any) -> DueWakeUp:
        time.sleep(0.4)  # as a thread that others keep from its processor
        return read_wakeup(*given, **named)

    monkeypatch.setattr(retry_reader, "read_wakeup", held_up)
    ground = make_ground("2s", partitions=1)
    ground.read()
    ground.send(["a"], delay_ms=2000)
    assert all(ones[0].late_ms >= 0 for ones in ground.all_heard().values())


def test_a_malformed_record_is_passed_and_stops_nothing(make_ground: MakeGround) -> None:
    ground = make_ground("200ms", partitions=1)
    ground.read()
    (name,) = ground.topics
    assert ground._writer.write([Outgoing(name, 0, None, b"junk", ())]) == [None]
    ground.send(["a"], delay_ms=200)
    ground.all_heard()
    assert ground.faults == []


def test_readers_end_while_they_wait(make_ground: MakeGround) -> None:
    ground = make_ground("1h")
    reader, _ = ground.read()
    ground.send(["a"], delay_ms=3_600_000)
    threading.Event().wait(0.3)
    reader.leave()
    assert reader.has_left(60)


def test_what_is_due_on_a_paused_topic_waits(make_ground: MakeGround) -> None:
    ground = make_ground("200ms", partitions=1)
    ground.pausing.learn([PauseRow(ground.handler.topic, "r", 1, "somebody")])
    ground.read()
    ground.send(["a"], delay_ms=200)
    time.sleep(1.0)  # that nothing comes in this time is what is looked for
    assert ground.heard == []
    ground.pausing.learn([])
    assert [one.request_id for one in ground.all_heard()["a"]] == ["a"]
