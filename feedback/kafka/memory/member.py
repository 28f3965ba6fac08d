"""A member of a group, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import TypeVar

from feedback.clock import monotonic_s
from feedback.kafka.errors import KafkaFault
from feedback.kafka.member import ANSWER_S, HAND_OVER_S, PartitionOwner
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.group import NOBODY, GroupSeat, GroupWord, MemoryGroup
from feedback.kafka.memory.positions import READ, MemoryPositions
from feedback.kafka.memory.rights import GuardedKind
from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

AnswerT = TypeVar("AnswerT")

# Their order is that of the joining, so the same test gives the same partitions.
_NUMBERS = count(1)


class MemoryMember:
    """See `feedback.kafka.member.GroupMember`.

    Args:
        broker: the broker of this address.
        settings: the group.
        topics: the topics to subscribe to.
        owner: hears of partitions that come and go, within `poll` and `close`.
    """

    def __init__(
        self,
        broker: MemoryBroker,
        settings: KafkaSection,
        topics: Sequence[str],
        owner: PartitionOwner,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._topics = frozenset(topics)
        self._owner = owner
        self._seat: GroupSeat | None = None
        self._generation = NOBODY
        self._positions = MemoryPositions(broker)
        self._is_coordinated = self._is_stable = self._is_closed = False
        self._lost_s, self._lost_why = float("-inf"), ""
        broker.ask("connect", lambda: None, limit_s=ANSWER_S)

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records."""
        until_s = monotonic_s() + timeout_s
        while True:
            self._follow_group()
            with self._broker.changed:
                records = self._positions.fetched(max_records) if self._broker.is_up else []
                now_s = monotonic_s()
                if records or now_s >= until_s:
                    return records
                if not self._is_behind(now_s):
                    self._broker.wait(self._wait_s(now_s, until_s))

    def _wait_s(self, now_s: float, until_s: float) -> float:
        removal_s = self._broker.group(self._settings.group).next_removal_s()
        # Members that stand still are removed by the polls of the others.
        return min(until_s, max(removal_s, now_s + 0.001)) - now_s

    # the group -----------------------------------------------------------------------------------

    def _group(self) -> MemoryGroup:
        return self._broker.group(self._settings.group, READ)

    def _word(self, now_s: float) -> GroupWord:
        """Return the next step in the group; for callers with the broker's lock."""
        if self._seat is None:
            return GroupWord.LOST
        return self._group().word_for(self._seat, self._generation, now_s=now_s)

    def _is_behind(self, now_s: float) -> bool:
        if not self._topics or not self._broker.is_up:
            return False
        return self._word(now_s) not in {GroupWord.GO_ON, GroupWord.WAIT}

    def _follow_group(self) -> None:
        """Take all steps that the group asks for; the owner hears of them outside of the lock."""
        while True:
            with self._broker.changed:
                if not self._is_reached():
                    return
                word = self._word(monotonic_s())
            self._is_stable = word is GroupWord.GO_ON
            match word:
                case GroupWord.GO_ON | GroupWord.WAIT:
                    return
                case GroupWord.LEARN:
                    self._learn()
                case GroupWord.LOST:
                    self._lose()
                    self._join()
                case GroupWord.JOIN:
                    if not self._is_cooperative:
                        self._give_up(self._positions.owned)
                    self._join()

    def _is_reached(self) -> bool:
        """Whether the broker answers now; note why it does not."""
        self._is_coordinated = self._broker.is_up
        if not self._is_coordinated:
            self._lost_s, self._lost_why = monotonic_s(), self._broker.state.value
            self._is_stable = False
            if self._seat is not None:
                # It does not stand still: nobody hears it.
                self._seat.seen_s = self._lost_s
        return self._is_coordinated and bool(self._topics)

    @property
    def _is_cooperative(self) -> bool:
        return self._settings.assignor == "cooperative"

    def _join(self) -> None:
        with self._broker.changed:
            now_s = monotonic_s()
            group = self._group()
            if self._seat is None:
                self._seat = GroupSeat(
                    member_id=f"{self._settings.client_id}-{next(_NUMBERS):09}",
                    topics=self._topics,
                    is_cooperative=self._is_cooperative,
                    still_s=self._settings.max_poll_interval_s,
                    seen_s=now_s,
                )
            group.join(self._seat, self._positions.owned, now_s=now_s)
            self._broker.changed.notify_all()

    def _learn(self) -> None:
        """Take the partitions of the new generation, and give up the others."""
        with self._broker.changed:
            if self._seat is None or self._word(monotonic_s()) is not GroupWord.LEARN:
                return
            self._generation = self._group().generation
            assigned = self._seat.assigned
        moved = self._positions.owned - assigned
        if moved:
            self._give_up(moved)
        self._take(assigned - self._positions.owned)
        if moved:
            # Their next owners get them in the generation after this one.
            self._join()

    def _take(self, new: frozenset[Partition]) -> None:
        with self._broker.changed:
            offsets = self._group().offsets
            self._positions.take({one: offsets.get(one, 0) for one in new})
        # An eager member hears of each assignment, an empty one included.
        if new or not self._is_cooperative:
            self.pause(self._owner.take(new))

    def _give_up(self, partitions: Collection[Partition]) -> None:
        if not partitions:
            return
        again = self._owner.give_up(frozenset(partitions))
        if again:
            self._owner.given_up(again, self._refusal_of(again))
        self._positions.drop(partitions)

    def _refusal_of(self, again: Mapping[Partition, int]) -> str:
        """Commit for the next owner; return why that failed, in a word."""
        try:
            self._commit("hand_over", again, limit_s=HAND_OVER_S)
        except KafkaFault as error:
            return type(error).__name__
        return ""

    def _lose(self) -> None:
        """Hear that the partitions are another's by now."""
        self._seat, self._generation = None, NOBODY
        lost = self._positions.owned
        if lost:
            again = self._owner.give_up(lost)
            if again:
                self._owner.given_up(again, "lost")
            self._positions.drop(lost)

    def is_coordinated(self) -> bool:
        """Whether a broker coordinates the group."""
        return self._is_coordinated

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it."""
        return self._is_stable

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        return BrokersAway(self._lost_why if self._lost_s >= since_s else "")

    def assigned(self) -> frozenset[Partition]:
        """Return the partitions that are this member's now."""
        return self._positions.owned

    def paused(self) -> frozenset[Partition]:
        """Return those of its partitions that are paused."""
        return self._positions.paused

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions from the next poll on."""
        self._positions.pause(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        self._positions.resume(partitions)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets."""
        self._positions.seek(offsets)

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        return self._positions.of(partition)

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        return self._positions.is_read(partition)

    # questions -----------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition."""
        self._commit("commit", offsets, limit_s=ANSWER_S)

    def _commit(self, call: str, offsets: Mapping[Partition, int], *, limit_s: float) -> None:
        seat, generation, kept = self._seat, self._generation, dict(offsets)
        if not kept:
            return
        self._broker.ask(
            call,
            lambda: self._group().commit(seat, generation, kept),
            limit_s=limit_s,
            changes=True,
        )

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition."""
        offsets = self._asked("committed", lambda: dict(self._group().offsets))
        return {one: offsets.get(one, 0) for one in partitions}

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partitions of topics."""
        with self._broker.changed:
            counts, rights = self._broker.counts(topics), self._broker.rights
            # Of a topic that may not be seen nothing is known.
            seen = [one for one in topics if rights.may("DESCRIBE", GuardedKind.TOPIC, one)]
        return {one: counts.get(one, 0) for one in seen}

    def topics(self) -> frozenset[str]:
        """Return the names of all topics."""
        return self._asked("topics", lambda: frozenset(self._broker.counts([*self._broker.topics])))

    def _asked(self, call: str, question: Callable[[], AnswerT]) -> AnswerT:
        return self._broker.ask(call, question, limit_s=ANSWER_S)

    def broker_version(self) -> str:
        """Return nothing: there is no protocol."""
        return ""

    def close(self) -> None:
        """Leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        self._give_up(self._positions.owned)
        seat, self._seat = self._seat, None
        if seat is None:
            return
        group = self._broker.group(self._settings.group)
        try:
            self._broker.ask("close", lambda: group.leave(seat), limit_s=ANSWER_S, changes=True)
        except KafkaFault:
            # Nobody sends its heartbeats any more.
            seat.seen_s, seat.still_s = monotonic_s(), self._settings.session_timeout_s
            raise
