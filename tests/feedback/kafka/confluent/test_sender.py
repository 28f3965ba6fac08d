"""A client's sender on librdkafka, and the words that it makes of librdkafka's."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from feedback.clock import monotonic_s
from feedback.kafka.confluent import pending_record, sending_connection
from feedback.kafka.confluent.acknowledged_offsets import AcknowledgedOffsets
from feedback.kafka.confluent.bounded_topic import BoundedTopic, RecordShare
from feedback.kafka.confluent.pending_record import ConfluentPending
from feedback.kafka.confluent.producer_limits import BATCH_BYTES
from feedback.kafka.confluent.sender import ConfluentSender
from feedback.kafka.confluent.sending_connection import SendingConnection
from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.send_errors import (
    OutOfTime,
    RecordNotSent,
    RecordUnknown,
    SenderClosed,
    TopicAway,
    TopicForbidden,
)
from feedback.kafka.sending import Coordinates, SendingPlan
from feedback.settings.settings import KafkaSection
from producer_client.sending.async_sender import ROOMS, AsyncSender
from tests.eventually import eventually
from tests.feedback.kafka.confluent.librdkafka import PLACE, TOPIC
from tests.feedback.kafka.confluent.sending_librdkafka import GONE, FakeSendingProducer, away

SAFE = Durability(is_idempotent=True)
TIMEOUT_S = 60.0
# Long enough for a thread that only has to wake, and short beside a hang.
SOON_S = 10.0
SHORT_S = 0.3
THREAD = "onceward-librdkafka"

Make = Callable[..., ConfluentSender]
FORBIDDEN = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
LOST = KafkaError(KafkaError._TRANSPORT)
REFUSALS = {
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
}
CODES = sorted(
    {
        code
        for name, code in vars(KafkaError).items()
        if isinstance(code, int) and name.isupper() and code != KafkaError.NO_ERROR
    }
)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeSendingProducer]]:
    """Yield the class of producers that senders make."""
    monkeypatch.setattr(sending_connection, "Producer", FakeSendingProducer)
    for name in ("made", "dropped_by", "sent"):
        monkeypatch.setattr(FakeSendingProducer, name, [])
    may_drop = threading.Event()
    monkeypatch.setattr(FakeSendingProducer, "may_drop", may_drop)
    yield FakeSendingProducer
    for one in FakeSendingProducer.made:
        one.end_all(LOST)
    may_drop.set()
    FakeSendingProducer.made.clear()
    eventually(lambda: THREAD not in [one.name for one in threading.enumerate()])


@pytest.fixture
def make(library: type[FakeSendingProducer]) -> Iterator[Make]:
    """Yield a factory of senders, closed at the end."""
    made: list[ConfluentSender] = []

    def sender(durability: Durability = PLAIN, *, send_timeout_s: float = TIMEOUT_S) -> Any:
        plan = SendingPlan(send_timeout_s, 100_000, durability)
        made.append(ConfluentSender(KafkaSection(), plan))
        return made[-1]

    yield sender
    for one in made:
        one.close(0.0)


def send(sender: ConfluentSender, value: bytes = b"v", **given: Any) -> ConfluentPending:
    """Send a record."""
    return sender.send(TOPIC, key=b"k", value=value, headers=[], **given)


def last(library: type[FakeSendingProducer]) -> FakeSendingProducer:
    """Return the producer that was made last."""
    return library.made[-1]


def word(pending: ConfluentPending) -> Coordinates | Exception:
    """Return the end of a record."""
    try:
        return pending.result()
    except (RecordNotSent, RecordUnknown) as error:
        return error


def test_of_all_errors_a_broker_s_refusals_at_the_first_try_alone_mean_not_sent(
    library: type[FakeSendingProducer], make: Make
) -> None:
    plain, safe = make(), make(SAFE)
    told: dict[bool, set[int]] = {True: set(), False: set()}
    for sender, is_plain in ((plain, True), (safe, False)):
        send(sender)
        last(library).end_one(offset=0)
        for code in CODES:
            pending = send(sender)
            last(library).descriptions[TOPIC] = None
            last(library).end_one(KafkaError(code))
            if isinstance(word(pending), RecordNotSent):
                told[is_plain].add(code)
    assert told == {True: {*REFUSALS, KafkaError.TOPIC_AUTHORIZATION_FAILED}, False: set()}


def test_a_refusal_as_late_as_a_try_of_librdkafka_itself_says_nothing_of_the_first(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make()
    for late_s, kind in ((0.7, RecordNotSent), (0.8, RecordUnknown)):
        pending = send(sender)
        began_s = pending._began_s
        with monkeypatch.context() as patch:
            patch.setattr(pending_record, "monotonic_s", lambda at_s=began_s + late_s: at_s)
            last(library).end_one(KafkaError(KafkaError.INVALID_RECORD))
            assert type(word(pending)) is kind


@pytest.mark.parametrize("described", ["described", "refused", "absent", "nobody answers"])
def test_a_right_that_is_missing_is_believed_where_kafka_describes_the_topic(
    library: type[FakeSendingProducer],
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    described: str,
) -> None:
    # librdkafka says it of a description too, to records that wait for another try.
    sender = make()
    pending = send(sender)
    fake = last(library)
    if described == "refused":
        fake.descriptions[TOPIC] = FORBIDDEN
    elif described == "absent":
        fake.descriptions.clear()
    elif described == "nobody answers":
        monkeypatch.setattr(fake, "list_topics", _raise_away)
    fake.end_one(FORBIDDEN)
    kind = TopicForbidden if described == "described" else RecordUnknown
    assert type(word(pending)) is kind


def _raise_away(*_: object, **__: object) -> None:
    raise away()


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_right_that_is_missing_says_nothing_of_a_record_beside_which_another_was_refused(
    library: type[FakeSendingProducer], make: Make, ends_first: bool
) -> None:
    sender = make()
    send(sender)
    fake = last(library)
    fake.end_one(offset=0)
    # The leader has stored one and resigned; the error of the other one is told to both.
    pending = [send(sender), send(sender)]
    order = pending if ends_first else pending[::-1]
    for one in order:
        if not ends_first:
            fake.queue.reverse()
        fake.end_one(FORBIDDEN)
        assert isinstance(word(one), RecordUnknown)
    alone = send(sender)
    fake.end_one(FORBIDDEN)
    assert isinstance(word(alone), TopicForbidden)


@pytest.mark.parametrize(
    "error", [BufferError("full"), TypeError("odd"), ValueError("odd"), away()], ids=repr
)
def test_what_librdkafka_did_not_take_is_not_sent(
    library: type[FakeSendingProducer], make: Make, error: Exception
) -> None:
    sender = make()
    first = send(sender)
    last(library).end_one(offset=0)
    first.result()
    last(library).raises = error
    with pytest.raises(RecordNotSent):
        send(sender)
    last(library).raises = None
    send(sender)
    assert len(library.sent) == 2


# 1: a producer whose end hangs.


def soon(call: Callable[[], object]) -> None:
    """Return when a call has, and fail if it takes long: once, since a second one may not hang."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_a_producer_that_hangs_as_it_is_dropped_holds_nobody_up(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make(send_timeout_s=SHORT_S)
    pending = send(sender)
    connection = sender._connection
    assert connection is not None
    last(library).end_one(offset=0)
    assert pending.result() == Coordinates(TOPIC, 0, 0)
    last(library).give_up()
    library.made.clear()
    eventually(lambda: library.dropped_by == [THREAD])

    def not_taken(call: Callable[[], object]) -> None:
        with pytest.raises(TopicAway):
            call()

    soon(lambda: not_taken(lambda: send(sender)))
    soon(lambda: not_taken(lambda: connection.topic(TOPIC, SHORT_S)))
    soon(lambda: sender.close(SHORT_S))
    assert not library.may_drop.is_set()
    assert library.sent == [b"v"]


def test_closing_waits_for_no_producer_that_hangs_as_it_is_dropped(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    pending = send(sender)
    connection = sender._connection
    assert connection is not None
    library.made[0].end_one(offset=0)
    assert pending.result() == Coordinates(TOPIC, 0, 0)
    library.made.clear()
    soon(sender.close)
    eventually(lambda: library.dropped_by == [THREAD])
    assert not connection.is_gone.is_set()


def test_an_error_that_a_caller_keeps_keeps_no_producer(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    send(sender)
    # A method of its own would keep it, as none of librdkafka's does.
    last(library).produce = _raise_away  # type: ignore[method-assign]
    with pytest.raises(RecordNotSent) as kept:
        send(sender)
    library.made.clear()
    sender.close(0.0)
    eventually(lambda: library.dropped_by == [THREAD])
    assert kept.value.__traceback__ is not None


# 2: the order of a key.


def test_a_successor_sends_nothing_before_its_predecessor_is_gone(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    first = [send(sender, value) for value in (b"1", b"2")]
    last(library).give_up()
    library.made.clear()
    # They are told before: the end may take long.
    assert {type(word(one)) for one in first} == {RecordUnknown}
    with pytest.raises(TopicAway):
        send(sender, b"3", deadline_s=monotonic_s() + SHORT_S)
    assert not sender.knows(TOPIC)
    library.may_drop.set()
    send(sender, b"4")
    assert library.sent == [b"1", b"2", GONE, b"4"]


def test_a_connection_that_ends_takes_nothing_more(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    send(sender)
    connection = sender._connection
    assert connection is not None
    connection.end(TIMEOUT_S)
    with pytest.raises(TopicAway):
        connection.hand_over(
            TOPIC, b"k", b"late", [], share=RecordShare(90), deadline_s=monotonic_s() + SOON_S
        )
    assert library.sent == [b"v"]


# 3: a batch that is refused whole.


def _refused(library: type[FakeSendingProducer], *pending: ConfluentPending) -> None:
    """Refuse records as too large, and return when each is told."""
    for _ in pending:
        last(library).end_one(LARGE)
    assert {type(word(one)) for one in pending} == {RecordNotSent}


def _goes_out(sender: ConfluentSender, value: bytes) -> bool:
    """Say whether a record is handed over at once."""
    try:
        send(sender, value, deadline_s=monotonic_s() + SHORT_S)
    except OutOfTime as error:
        assert "few bytes" in str(error)
        return False
    return True


def _waits(sender: ConfluentSender, value: bytes) -> bool:
    """Say whether a record would wait for others of its topic."""
    return sender.why_wait(TOPIC, key=b"k", value=value, headers=[]) is not None


def test_records_larger_than_a_batch_that_are_refused_make_their_topic_no_slower(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    # Each of them is a batch of its own, whatever is beside it.
    _refused(library, *[send(sender, bytes(BATCH_BYTES)) for _ in range(3)])
    assert all(_goes_out(sender, bytes(BATCH_BYTES // 2)) for _ in range(4))
    assert not _waits(sender, bytes(BATCH_BYTES // 2))


def test_after_a_batch_was_refused_no_larger_one_of_its_topic_can_be_made(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender, bound = make(), BATCH_BYTES // 4
    _refused(library, *[send(sender, bytes(3000)) for _ in range(20)])
    assert not _waits(sender, bytes(bound))
    # Twenty such records were one batch, and say no more than the first of them.
    assert [_goes_out(sender, bytes(bound // 2 - 100)) for _ in range(3)] == [True, True, False]
    last(library).end_one(offset=0)
    eventually(lambda: _goes_out(sender, bytes(bound // 2 - 100)))
    assert not _goes_out(sender, b"small" * 100)
    assert _waits(sender, b"small" * 100)


def test_a_record_above_its_topic_s_bound_goes_alone_and_its_refusal_says_nothing_of_batches(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender, bound = make(), BATCH_BYTES // 4
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    for _ in range(2):
        alone = send(sender, bytes(bound))
        assert not _goes_out(sender, b"beside it")
        _refused(library, alone)
    assert [_goes_out(sender, bytes(bound // 2 - 100)) for _ in range(2)] == [True, True]
    assert not _goes_out(sender, bytes(bound))


def test_what_was_under_way_at_a_refusal_counts_as_well(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    pending = [send(sender, bytes(10_000)) for _ in range(3)]
    _refused(library, pending[0])
    assert not _goes_out(sender, b"in a batch with the others")
    for offset in range(2):
        last(library).end_one(offset=offset)
    assert _goes_out(sender, bytes(10_000))


def test_a_topic_that_takes_a_larger_record_again_is_as_fast_as_that(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender, bound = make(), BATCH_BYTES // 4
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    larger = send(sender, bytes(2 * bound))
    last(library).end_one(offset=0)
    larger.result()
    assert [_goes_out(sender, bytes(bound - 100)) for _ in range(3)] == [True, True, False]
    while last(library).queue:
        last(library).end_one(offset=len(library.sent) - len(last(library).queue))
    whole = send(sender, bytes(BATCH_BYTES))
    assert _waits(sender, b"v")
    last(library).end_one(offset=100)
    whole.result()
    assert not _waits(sender, bytes(BATCH_BYTES))


class _Limited:
    """A broker whose topic takes so many bytes at once, and a sender of records of one size."""

    def __init__(self, library: type[FakeSendingProducer], sender: ConfluentSender) -> None:
        self._library, self._sender = library, sender
        self.limit_bytes = BATCH_BYTES
        self.refused = 0
        self._offsets = itertools.count()

    def round(self, count: int) -> int:
        """Send as many as go out at once, at most `count`, in one batch; return how many did."""
        together: list[ConfluentPending] = []
        while len(together) < count and self._has_room():
            together.append(send(self._sender, bytes(1000)))
        is_refused = len(together) * 1088 > self.limit_bytes
        for one in together:
            if is_refused:
                last(self._library).end_one(LARGE)
            else:
                last(self._library).end_one(offset=next(self._offsets))
            word(one)
        self.refused += len(together) * is_refused
        return len(together)

    def _has_room(self) -> bool:
        found = self._sender._bounded._topics.get(TOPIC)
        return found is None or not found._under_way or found._under_way + 1088 <= found.bound


def _small_again(broker: _Limited, limit_bytes: int) -> None:
    broker.limit_bytes = 500
    while broker.round(24) > 1:
        pass
    broker.round(24)
    broker.limit_bytes, broker.refused = limit_bytes, 0


def test_records_of_one_size_are_as_fast_as_before_once_their_topic_takes_them_again(
    library: type[FakeSendingProducer], make: Make
) -> None:
    broker = _Limited(library, make())
    _small_again(broker, 1_048_588)
    assert [broker.round(24) for _ in range(8)] == [1, 1, 3, 7, 15, 24, 24, 24]


def test_a_topic_that_takes_a_few_records_more_refuses_one_batch_of_them_alone(
    library: type[FakeSendingProducer], make: Make
) -> None:
    broker = _Limited(library, make())
    _small_again(broker, 2500)
    rounds = [broker.round(24) for _ in range(50)]
    assert rounds[:3] == [1, 1, 3] and broker.refused == 3
    assert {*rounds[3:]} == {1}


def test_what_proves_in_a_pause_that_a_limit_was_raised_still_does_so_at_its_end(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    broker = _Limited(library, sender)
    _small_again(broker, 2500)
    for _ in range(10):
        broker.round(24)
    assert broker.refused == 3
    # It is lowered, and then raised for good, while the pause lasts.
    _small_again(broker, 1_048_588)
    assert [broker.round(24) for _ in range(3)] == [1, 1, 1]
    sender._bounded._topics[TOPIC]._grows_again_s = 0.0
    rounds = [broker.round(24) for _ in range(10)]
    assert rounds[-1] == 24


def test_the_others_of_the_batch_that_ends_a_growth_lower_no_bound() -> None:
    topic = BoundedTopic()
    topic.set_bound(1000)
    shares = [RecordShare(size) for size in (500, 500, 500, 500)]
    for share in shares:
        assert topic.enter(share, 0.0)
        topic.leave(share)
        topic.refused_alone(RecordShare(400))
        topic.taken(share)
    ended = topic.bound
    for share in shares:
        topic.refused_batch(share)
    assert topic.bound == ended / 4


def test_records_that_wait_for_others_of_their_topic_keep_their_turns(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    small = send(sender, b"1")
    large = threading.Thread(target=send, args=[sender, bytes(BATCH_BYTES // 4)])
    large.start()
    # It has its turn, and waits until it would be alone.
    topic = sender._bounded._topics[TOPIC]
    eventually(topic.turn.locked)
    assert not _goes_out(sender, b"3")
    last(library).end_one(offset=0)
    small.result()
    large.join(SOON_S)
    assert [len(one) for one in library.sent[1:]] == [1, BATCH_BYTES // 4]


class _Stop:
    """Lets one record stand between the look at its topic's bound and the handing over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
        self.stands, self.go = threading.Event(), threading.Event()
        original = SendingConnection.hand_over

        def hand_over(connection: SendingConnection, *given: Any, **named: Any) -> Any:
            if value in given:
                self.stands.set()
                assert self.go.wait(SOON_S)
            return original(connection, *given, **named)

        monkeypatch.setattr(SendingConnection, "hand_over", hand_over)


def test_a_record_is_counted_whose_topic_was_bounded_as_it_was_to_be_handed_over(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, value = make(), bytes(10_000)
    first = send(sender, bytes(BATCH_BYTES // 2))
    stop = _Stop(monkeypatch, value)
    thread = threading.Thread(target=send, args=[sender, value])
    thread.start()
    assert stop.stands.wait(SOON_S)
    _refused(library, first)
    stop.go.set()
    thread.join(SOON_S)
    assert library.sent[1:] == [value]
    assert not _goes_out(sender, bytes(10_001))


def test_a_record_that_waited_is_counted_where_its_topic_is_bounded_anew(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, value = make(), bytes(10_000)
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    whole = send(sender, bytes(BATCH_BYTES))
    topic = sender._bounded._topics[TOPIC]
    stop = _Stop(monkeypatch, value)
    thread = threading.Thread(target=send, args=[sender, value])
    thread.start()
    eventually(topic.turn.locked)
    # That is the end of its bound; the next one begins before the waiting record is handed over.
    last(library).end_one(offset=0)
    whole.result()
    assert stop.stands.wait(SOON_S)
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    stop.go.set()
    thread.join(SOON_S)
    assert library.sent[3:] == [value]
    assert not _goes_out(sender, bytes(10_001))


def test_nothing_is_handed_over_while_a_topic_is_bounded_and_its_records_are_counted(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make()
    pending = [send(sender, bytes(10_000)) for _ in range(3)]
    connection = sender._connection
    assert connection is not None
    could_hand_over: list[bool] = []
    count, registered = BoundedTopic.count, sender._bounded._topics

    def watch() -> None:
        if is_free := connection._changed.acquire(blocking=False):
            connection._changed.release()
        could_hand_over.append(is_free)

    def watched(topic: BoundedTopic, one: Any) -> None:
        watch()
        count(topic, one)

    class Watched(dict[str, BoundedTopic]):
        def __setitem__(self, name: str, topic: BoundedTopic) -> None:
            watch()
            super().__setitem__(name, topic)

    monkeypatch.setattr(BoundedTopic, "count", watched)
    monkeypatch.setattr(sender._bounded, "_topics", Watched(registered))
    _refused(library, pending[0])
    assert could_hand_over == [False] * 4


@pytest.mark.parametrize("where", ["counted", "handed over"])
def test_a_record_whose_sender_is_interrupted_counts_until_its_end_and_no_longer(
    library: type[FakeSendingProducer],
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    sender, value = make(), bytes(10_000)
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    owner: Any = BoundedTopic if where == "counted" else SendingConnection
    name = "enter" if where == "counted" else "hand_over"
    original = getattr(owner, name)

    def interrupted(*given: Any, **named: Any) -> None:
        original(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, interrupted)
        send(sender, value)
    if where == "handed over":
        assert not _goes_out(sender, value)
        last(library).end_one(offset=0)
    assert _goes_out(sender, value)


def test_a_caller_s_function_that_sends_to_the_bounded_topic_waits_for_no_record_that_has_ended(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender, value = make(), bytes(10_000)
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    pending = send(sender, value)
    found: list[bool] = []
    told = threading.Event()

    def send_another() -> None:
        found.append(_goes_out(sender, value))
        told.set()

    pending.when_known(send_another)
    last(library).end_one(offset=0)
    assert told.wait(SOON_S)
    assert found == [True]


def _tasks(sender: ConfluentSender, count: int) -> tuple[AsyncSender, list[str]]:
    """Return a sender for tasks, and topics of which few bytes are under way at once."""
    topics = [f"small-{number}" for number in range(count)]
    sender._bounded._topics |= {topic: BoundedTopic() for topic in topics}
    for topic in topics:
        sender._bounded._topics[topic].set_bound(1000)
    return AsyncSender(sender, send_timeout_s=TIMEOUT_S), topics


def test_a_task_waits_for_no_topics_whose_records_wait_for_others_of_them(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    send(sender, b"first")
    last(library).end_one(offset=0)

    async def send_all() -> None:
        tasks, topics = _tasks(sender, ROOMS + 1)
        last(library).descriptions.update(dict.fromkeys([*topics, "another"]))
        handed = [
            tasks.send(topic, key=b"k", value=bytes(900) + b"%d" % number, headers=[])
            for topic in topics
            for number in range(3)
        ]
        another = tasks.send("another", key=b"k", value=b"another", headers=[])
        await _until(lambda: b"another" in library.sent and len(library.sent) >= 2 + len(topics))
        assert len(library.sent) == 2 + len(topics)
        # Each end lets the next one of its topic go, in their order.
        for offset in range(len(topics) * 3 + 1):
            await _until(lambda: bool(last(library).queue))
            last(library).end_one(offset=offset)
        ends = [await one.ending() for one in [another, *handed]]
        assert {type(one) for one in ends} == {Coordinates}
        for topic in topics:
            values = [one.value for one in last(library).taken if one.topic == topic]
            assert values == [bytes(900) + b"%d" % number for number in range(3)]
        await tasks.aclose()

    asyncio.run(send_all())


def test_a_loop_that_raises_as_a_record_has_ended_leaves_no_record_of_its_topic_waiting(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make()
    send(sender, b"first")
    last(library).end_one(offset=0)

    async def send_two() -> None:
        tasks, (topic,) = _tasks(sender, 1)
        last(library).descriptions[topic] = None
        tasks.send(topic, key=b"k", value=bytes(900), headers=[])
        await _until(lambda: bool(last(library).queue))
        waits = tasks.send(topic, key=b"k", value=bytes(901), headers=[])
        await _until(lambda: topic in tasks._rooms)
        with monkeypatch.context() as patch:
            raises = Mock(side_effect=ValueError("of the application's own loop"))
            patch.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", raises)
            last(library).end_one(offset=0)
            await _until(lambda: raises.called)
        await _until(lambda: bool(last(library).queue))
        last(library).end_one(offset=1)
        assert type(await waits.ending()) is Coordinates
        await tasks.aclose()

    asyncio.run(send_two())


def test_a_task_whose_record_waited_for_others_all_its_time_is_told_so(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    send(sender, b"first")
    last(library).end_one(offset=0)

    async def send_all() -> None:
        tasks, (topic,) = _tasks(sender, 1)
        last(library).descriptions[topic] = None
        first = tasks.send(topic, key=b"k", value=bytes(900), headers=[])
        at_s = monotonic_s() + SHORT_S
        late = [
            tasks.send(topic, key=b"k", value=value, headers=[], deadline_s=at_s)
            for value in (bytes(901), bytes(902))
        ]
        after = tasks.send(topic, key=b"k", value=bytes(903), headers=[])
        for one in late:
            with pytest.raises(OutOfTime, match="few bytes"):
                await one.ending()
        last(library).end_one(offset=0)
        assert type(await first.ending()) is Coordinates
        await _until(lambda: bool(last(library).queue))
        assert [len(one) for one in library.sent[1:]] == [900, 903]
        closing = tasks.send(topic, key=b"k", value=bytes(904), headers=[])
        last(library).end_one(offset=1)
        assert type(await after.ending()) is Coordinates
        await _until(lambda: bool(last(library).queue))
        waits = tasks.send(topic, key=b"k", value=bytes(905), headers=[])
        await _until(lambda: waits.room is not None)
        is_closed = asyncio.create_task(tasks.aclose())
        await asyncio.sleep(0)
        last(library).end_one(offset=2)
        assert type(await closing.ending()) is Coordinates
        await is_closed
        with pytest.raises(SenderClosed):
            await waits.ending()

    asyncio.run(send_all())


def test_a_thread_that_could_not_be_started_in_time_hands_nothing_over_beside_another(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send_two() -> None:
        tasks = AsyncSender(make(), send_timeout_s=TIMEOUT_S)
        # An executor queues its work before it starts a thread for it.
        opening = Mock(side_effect=RuntimeError("can't start new thread"))
        monkeypatch.setattr(tasks._openers, "submit", opening)
        with pytest.raises(TopicAway, match="can't start new thread"):
            await tasks.send(TOPIC, key=b"k", value=b"refused", headers=[]).ending()
        opening.side_effect = None
        waits = tasks.send(TOPIC, key=b"k", value=b"waits", headers=[])
        await _until(lambda: waits.room is not None)
        late, in_time = (one.args for one in opening.call_args_list)
        late[0](*late[1:])
        assert not library.sent
        ending = asyncio.create_task(asyncio.to_thread(in_time[0], *in_time[1:]))
        await _until(lambda: b"waits" in library.sent)
        last(library).end_one(offset=0)
        assert type(await waits.ending()) is Coordinates
        await ending
        await tasks.aclose()

    asyncio.run(send_two())


async def _until(is_so: Callable[[], bool]) -> None:
    until_s = monotonic_s() + SOON_S
    while not is_so():
        assert monotonic_s() < until_s
        await asyncio.sleep(0.001)


# 4: acknowledgements that name no place.


@pytest.mark.parametrize(
    ("offsets", "places"),
    [
        ((-1,), ()),
        # librdkafka counts on from the -1 of a duplicate.
        ((-1, 0, 1, 2), ()),
        ((5, -1, 0, 6, 7), (5,)),
        ((5, 5), (5,)),
        ((5, 3, 6), (5,)),
        ((5, 6, 9), (5, 6, 9)),
    ],
)
@pytest.mark.parametrize("durability", [PLAIN, SAFE], ids=["plain", "safe"])
def test_an_offset_that_is_not_above_the_last_one_is_no_place(
    library: type[FakeSendingProducer],
    make: Make,
    durability: Durability,
    offsets: tuple[int, ...],
    places: tuple[int, ...],
) -> None:
    sender = make(durability)
    pending = [send(sender) for _ in offsets]
    before = last(library)
    for offset in offsets:
        before.end_one(offset=offset)
    words = [word(one) for one in pending]
    assert [one.offset for one in words if isinstance(one, Coordinates)] == [*places]
    assert {type(one) for one in words} <= {Coordinates, RecordUnknown}
    # The next producer is believed anew: the topic may have been made again.
    again = send(sender)
    assert (last(library) is before) == (len(places) == len(offsets))
    last(library).end_one(offset=100)
    assert word(again) == Coordinates(TOPIC, 0, 100)


def test_offsets_of_other_partitions_say_nothing_of_one() -> None:
    offsets = AcknowledgedOffsets()
    assert offsets.is_place(PLACE, 7)
    assert offsets.is_place((TOPIC, 1), 0)
    assert not offsets.is_place((TOPIC, 1), None)
    assert offsets.is_place(PLACE, 8)


def test_a_duplicate_that_librdkafka_tells_as_an_error_is_unknown(
    library: type[FakeSendingProducer], make: Make
) -> None:
    pending = send(make(SAFE))
    last(library).end_one(KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER))
    assert type(word(pending)) is RecordUnknown


# 5: a topic of which nothing is said.


def test_a_topic_of_which_kafka_says_nothing_gets_nothing(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make(send_timeout_s=SHORT_S)
    with pytest.raises(TopicAway, match="does not describe"):
        sender.send("other", key=b"k", value=b"v", headers=[])
    assert library.sent == []


def test_a_question_that_the_end_of_its_time_cuts_short_hides_no_answer(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = FakeSendingProducer.list_topics

    def answer(fake: FakeSendingProducer, name: str, *, timeout: float) -> Any:
        if timeout < SHORT_S / 2:
            raise away()
        return listed(fake, name, timeout=timeout)

    monkeypatch.setattr(FakeSendingProducer, "list_topics", answer)
    sender = make(send_timeout_s=SHORT_S)
    with pytest.raises(TopicAway, match="does not describe"):
        sender.send("other", key=b"k", value=b"v", headers=[])


# 6: the thread that serves a producer.


def test_the_thread_ends_with_a_sender_that_nobody_closes_and_tells_its_records(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = ConfluentSender(KafkaSection(), SendingPlan(SHORT_S, 100_000, PLAIN))
    pending = send(sender)
    told = threading.Event()
    pending.when_known(told.set)
    del sender
    gc.collect()
    assert told.wait(SOON_S)
    assert type(word(pending)) is RecordUnknown
    eventually(lambda: THREAD not in [one.name for one in threading.enumerate()])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whatever_ends_the_thread_all_records_are_told_and_the_next_one_goes_out(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    pending = [send(sender) for _ in range(4)]
    told = [threading.Event() for _ in pending]
    for one, event in zip(pending, told, strict=True):
        one.when_known(event.set)
    # A fault of our own within a poll, and callers' as the rest is told.
    for one in pending[1:3]:
        one.when_known(_fail)
    last(library).end_one(offset=0)
    last(library).call(_fail)
    library.made.clear()
    library.may_drop.set()
    assert all(event.wait(SOON_S) for event in told)
    assert [type(word(one)) for one in pending] == [Coordinates, *[RecordUnknown] * 3]
    send(sender, b"after")
    assert [one for one in library.sent if one != GONE] == [b"v"] * 4 + [b"after"]


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit], ids=["error", "exit"])
def test_what_a_caller_s_own_function_raises_ends_no_other_record(
    library: type[FakeSendingProducer],
    make: Make,
    caplog: pytest.LogCaptureFixture,
    fault: type[BaseException],
) -> None:
    sender = make()
    pending = [send(sender) for _ in range(3)]
    connection = sender._connection
    told = threading.Event()
    pending[0].when_known(told.set)
    for one in pending[:2]:
        one.when_known(lambda: _raise(fault))
    for offset in range(3):
        last(library).end_one(offset=offset)
    assert [word(one) for one in pending] == [Coordinates(TOPIC, 0, offset) for offset in range(3)]
    assert told.wait(SOON_S)
    send(sender)
    assert sender._connection is connection
    assert connection is not None and not connection.is_ending
    events = [one.message for one in caplog.records]
    assert [one.startswith("send.tell_failed") for one in events] == [True, True]


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit], ids=["error", "exit"])
def test_a_log_that_raises_as_a_function_has_failed_ends_no_record(
    library: type[FakeSendingProducer], make: Make, fault: type[BaseException]
) -> None:
    sender = make()
    _refused(library, send(sender, bytes(BATCH_BYTES // 2)))
    pending = [send(sender, bytes(5000)) for _ in range(3)]
    connection = sender._connection
    assert connection is not None
    asked: list[str] = []

    def raise_fault(record: logging.LogRecord) -> bool:
        asked.append(record.getMessage())
        raise fault

    for one in pending:
        one.when_known(_fail)
    logger = logging.getLogger("onceward.kafka")
    logger.addFilter(raise_fault)
    try:
        last(library).end_one(offset=0)
        assert pending[0].result() == Coordinates(TOPIC, 0, 0)
        # It is still served.
        assert _goes_out(sender, bytes(5000))
        assert sender._connection is connection and not connection.is_ending
        # The rest of its records is told as it ends.
        library.may_drop.set()
        last(library).give_up()
        library.made.clear()
        assert connection.is_gone.wait(SOON_S)
    finally:
        logger.removeFilter(raise_fault)
    assert len(asked) == 3
    assert [one.is_settled(0.0) for one in pending] == [True] * 3
    assert _goes_out(sender, bytes(BATCH_BYTES // 4))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_record_that_cannot_be_told_leaves_no_other_untold(
    library: type[FakeSendingProducer], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make()
    pending = [send(sender) for _ in range(4)]
    finish = ConfluentPending.finish

    def finish_and_fail(one: ConfluentPending, end: Any) -> None:
        finish(one, end)
        _fail()

    monkeypatch.setattr(ConfluentPending, "finish", finish_and_fail)
    library.may_drop.set()
    last(library).give_up()
    library.made.clear()
    assert {type(word(one)) for one in pending} == {RecordUnknown}


def test_an_interrupt_of_a_caller_that_learns_a_known_end_is_its_own(
    library: type[FakeSendingProducer], make: Make
) -> None:
    pending = send(make())
    last(library).end_one(offset=0)
    pending.result()
    pending.when_known(_fail)
    with pytest.raises(KeyboardInterrupt):
        pending.when_known(lambda: _raise(KeyboardInterrupt))


def _fail() -> None:
    raise ZeroDivisionError("a caller's own fault")


def _raise(fault: type[BaseException]) -> None:
    raise fault


def test_a_sender_has_one_thread_however_many_threads_send(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    threads = [threading.Thread(target=send, args=[sender]) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(SOON_S)
    assert len(library.sent) == 20
    assert [one.name for one in threading.enumerate()].count(THREAD) == 1


def test_a_child_of_a_fork_uses_no_producer_of_its_parent(
    library: type[FakeSendingProducer], make: Make
) -> None:
    sender = make()
    pending = send(sender)
    child = os.fork()
    if child == 0:
        os._exit(_what_a_child_finds(sender))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert library.sent == [b"v"]
    last(library).end_one(offset=3)
    assert pending.result() == Coordinates(TOPIC, 0, 3)


def _what_a_child_finds(sender: ConfluentSender) -> int:
    try:
        send(sender)
    except SenderClosed:
        sender.close()
        del sender
        gc.collect()
        return len(FakeSendingProducer.sent) - 1 + len(FakeSendingProducer.dropped_by)
    return 9
