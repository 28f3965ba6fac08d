"""A consumer in the place of librdkafka's: it hands out what a test gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from feedback.kafka.errors import KafkaFault
from feedback.kafka.values import Partition
from feedback.records.envelope import Record

TOPIC = "t"
PLACE = (TOPIC, 0)


class FakeMessage:
    """A message of librdkafka, or an event where it has an error.

    Args:
        is_odd: a header's name is not UTF-8.
    """

    def __init__(
        self,
        offset: int,
        place: Partition = PLACE,
        *,
        is_odd: bool = False,
        error: KafkaError | None = None,
    ) -> None:
        self._offset, self._place, self._is_odd, self._error = offset, place, is_odd, error

    def topic(self) -> str:
        """Return its topic."""
        return self._place[0]

    def partition(self) -> int:
        """Return its partition."""
        return self._place[1]

    def offset(self) -> int:
        """Return its offset."""
        return self._offset

    def error(self) -> KafkaError | None:
        """Return why it is no record."""
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """Return its kind of time, and the time."""
        return 1, 1

    def key(self) -> None:
        """Return its key."""

    def value(self) -> bytes:
        """Return its value."""
        return b"%d" % self._offset

    def headers(self) -> None:
        """Return its headers, as confluent-kafka does."""
        if self._is_odd:
            raise SystemError


def _partitions(places: list[TopicPartition]) -> set[Partition]:
    return {(one.topic, one.partition) for one in places}


class FakeConsumer:
    """Has one log for each partition, and a position that each message moves on.

    Attributes:
        logs: the messages of each partition.
        at: the next message of each partition, as an index.
        assigned: the partitions that it has.
        committed_at: the committed offset of each.
        hands_out: how many messages have been fetched for each call, at most.
        sought: where it was told to go, or to begin.
        member_id: its name in the group.
        steps: called within the next call of a name, as librdkafka calls back.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.logs: dict[Partition, list[FakeMessage]] = {}
        self.at: dict[Partition, int] = {}
        self.assigned: set[Partition] = set()
        self.events: list[FakeMessage] = []
        self.paused: set[Partition] = set()
        self.steps: dict[str, list[Callable[[], None]]] = {"poll": [], "consume": []}
        self.heard: dict[str, Callable[..., None]] = {}
        self._came: set[Partition] = set()
        self.committed_at = 0
        self.hands_out = 500
        self.sought: list[TopicPartition] = []
        self.member_id = "first"

    def subscribe(self, _: list[str], **heard: Callable[..., None]) -> None:
        """Keep who hears of partitions."""
        self.heard = heard

    def give(self, *places: Partition, within: str = "poll") -> None:
        """Assign these within the next call of a name."""
        self.steps[within].append(lambda: self._give(places))

    def _give(self, places: tuple[Partition, ...]) -> None:
        if self.properties["partition.assignment.strategy"] == "cooperative-sticky":
            # Those that it has already are not named.
            places = tuple(one for one in places if one not in self.assigned)
        self.heard["on_assign"](self, [TopicPartition(*one) for one in places])

    def take_away(self, *places: Partition, within: str = "poll") -> None:
        """Revoke these within the next call of a name."""
        gone = [TopicPartition(*one) for one in places]
        self.steps[within].append(lambda: self.heard["on_revoke"](self, gone))

    def lose(self, *places: Partition) -> None:
        """Let a session end without an answer: forget the member, and tell it in the next poll."""
        self.member_id = ""
        gone = [TopicPartition(*one) for one in places]
        self.steps["poll"].append(lambda: self.heard["on_lost"](self, gone))

    def memberid(self) -> str:
        """Return its name in the group; none before it has joined."""
        return self.member_id

    def assign(self, places: list[TopicPartition]) -> None:
        """Read these, and no others."""
        self.unassign()
        self.incremental_assign(places)

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        """Read these as well; from the committed offset, or from another one."""
        self._refuse(KafkaError._CONFLICT, _partitions(places) & self.assigned)
        self.assigned |= _partitions(places)
        for one in places:
            self._came.add((one.topic, one.partition))
            begin = self.committed_at if one.offset < 0 else one.offset
            self.seek(TopicPartition(one.topic, one.partition, begin))

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        """Read no more of these; of none, if one of them is not assigned."""
        self._refuse(KafkaError._INVALID_ARG, _partitions(places) - self.assigned)
        self.assigned -= _partitions(places)
        for one in _partitions(places):
            self.at.pop(one, None)

    def unassign(self) -> None:
        """Read nothing."""
        self.assigned.clear()
        self.at.clear()

    @staticmethod
    def _refuse(code: int, places: set[Partition]) -> None:
        if places:
            raise KafkaException(KafkaError(code))

    def poll(self, _: float) -> FakeMessage | None:
        """Return the next message; a callback comes first, and has librdkafka return without."""
        if self.steps["poll"]:
            self._call_back("poll")
            return None
        return next(iter(self._taken(1)), None)

    def consume(self, count: int, _: float) -> list[FakeMessage]:
        """Return the next messages; what a callback raises costs them all."""
        found = self._taken(count)
        self._came.clear()
        self._call_back("consume")
        # What was taken before a partition came anew is outdated.
        return [one for one in found if (one.topic(), one.partition()) not in self._came]

    def _call_back(self, within: str) -> None:
        while self.steps[within]:
            self.steps[within].pop(0)()

    def _taken(self, count: int) -> list[FakeMessage]:
        count = min(count, self.hands_out)
        found = [self.events.pop(0) for _ in self.events[:count]]
        for place in sorted(self.at.keys() - self.paused):
            log = self.logs.get(place, [])
            some = log[self.at[place] : self.at[place] + count - len(found)]
            self.at[place] += len(some)
            found += some
        return found

    def seek(self, place: TopicPartition) -> None:
        """Go to an offset."""
        self.sought.append(place)
        one = (place.topic, place.partition)
        offsets = [message.offset() for message in self.logs.get(one, [])]
        self.at[one] = sum(offset < place.offset for offset in offsets)

    def pause(self, places: list[TopicPartition]) -> None:
        """Return nothing of these."""
        self.paused |= {(one.topic, one.partition) for one in places}

    def resume(self, places: list[TopicPartition]) -> None:
        """Return messages of these again."""
        self.paused -= {(one.topic, one.partition) for one in places}

    def list_topics(self, *topics: str, **_: object) -> None:
        """Answer as a broker to a new client."""
        assert not topics, "a poll would wait for the answer"

    def close(self) -> None:
        """Leave."""


class FakeAdministrator:
    """In the place of the other engine's: notes who is removed from groups.

    Attributes:
        removed: the members, by their names.
        faults: what is raised first.
    """

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.faults: list[KafkaFault] = []

    def remove_member(self, _: str, member_id: str) -> None:
        """Note a member."""
        if self.faults:
            raise self.faults.pop(0)
        self.removed.append(member_id)

    def close(self) -> None:
        """End."""


class FakeAnew:
    """In the place of the other engine: gives records, none, or a fault.

    Attributes:
        answers: what is raised or returned for each offset; anything else is given.
        closed: how often a poll has ended.
    """

    def __init__(self) -> None:
        self.answers: dict[int, Exception | None] = {}
        self.asked: list[int] = []
        self.closed = 0

    def read(self, topic: str, partition: int, offset: int) -> Record | None:
        """Return a record, as the test wants it; each answer once."""
        self.asked.append(offset)
        if offset in self.answers:
            answer = self.answers.pop(offset)
            if answer is not None:
                raise answer
            return None
        return Record(topic, partition, offset, 1, None, b"%d" % offset, ())

    def close(self) -> None:
        """End a poll."""
        self.closed += 1
