"""A consumer group of a broker in memory: its members, its generations, and its offsets.

A change of members or partitions begins a rebalance. Each member then joins anew, and the last one
to do so ends it: there is a new generation, in which each has its partitions. Whoever does not
join loses its seat after the time for which it may stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.assignment import by_owners, by_ranges
from feedback.kafka.memory.faults import said
from feedback.kafka.values import Partition

NOBODY = -1


@dataclass(slots=True, eq=False)
class GroupSeat:
    """A member, as its group knows it.

    Attributes:
        still_s: for how long it may stand still, in seconds.
        seen_s: when it was last seen, by the monotonic clock.
        owned: its partitions when it joined.
        assigned: its partitions in the last generation.
    """

    member_id: str
    topics: frozenset[str]
    is_cooperative: bool
    still_s: float
    seen_s: float
    owned: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    has_joined: bool = False


class GroupWord(StrEnum):
    """The next step of a member."""

    GO_ON = "nothing has changed"
    JOIN = "a rebalance has begun"
    WAIT = "others have not joined yet"
    LEARN = "there is a new generation"
    LOST = "it is no member any more"


class MemoryGroup:
    """A group. The broker's lock guards it.

    Args:
        address: of its broker.
        count: returns the partitions of those topics that exist.

    Attributes:
        generation: the number of the last one.
        offsets: those that were committed.
    """

    def __init__(self, address: str, count: Callable[[Collection[str]], Mapping[str, int]]) -> None:
        self.generation = 0
        self.offsets: dict[Partition, int] = {}
        self._address = address
        self._count = count
        self._seats: dict[str, GroupSeat] = {}
        self._counts: Mapping[str, int] = {}
        self._is_rebalancing = False

    @property
    def member_ids(self) -> frozenset[str]:
        """The names of its members."""
        return frozenset(self._seats)

    @property
    def has_members(self) -> bool:
        """Whether anybody is a member."""
        return bool(self._seats)

    def word_for(self, seat: GroupSeat, generation: int, *, now_s: float) -> GroupWord:
        """Return the next step of a member, who has been seen with this.

        Args:
            generation: the last one that it has learnt of.
        """
        self.remove_still(now_s)
        if not self._has(seat):
            return GroupWord.LOST
        seat.seen_s = now_s
        if not self._is_rebalancing and self._count(self._topics()) != self._counts:
            self._rebalance()
        if self._is_rebalancing:
            return GroupWord.WAIT if seat.has_joined else GroupWord.JOIN
        return GroupWord.GO_ON if generation == self.generation else GroupWord.LEARN

    def join(self, seat: GroupSeat, owned: Collection[Partition], *, now_s: float) -> None:
        """Let a member join, with the partitions that it goes on to own.

        Raises:
            KafkaFault: the others assign partitions in another way.
        """
        others = [one for one in self._seats.values() if one is not seat]
        if any(one.is_cooperative != seat.is_cooperative for one in others):
            raise said(KafkaFault, self._address, "InconsistentGroupProtocolError")
        if not self._is_rebalancing:
            self._rebalance()
        self._seats[seat.member_id] = seat
        seat.owned, seat.has_joined, seat.seen_s = frozenset(owned), True, now_s
        self._end_rebalance()

    def leave(self, seat: GroupSeat) -> None:
        """Let a member go."""
        if self._has(seat):
            self._remove([seat])

    def remove(self, member_id: str) -> None:
        """Let another one have a member go, if it is there."""
        if member_id in self._seats:
            self._remove([self._seats[member_id]])

    def expel_all(self) -> None:
        """Remove all members, as a coordinator that forgets them; each joins at its next poll."""
        self._remove([*self._seats.values()])

    def remove_still(self, now_s: float) -> None:
        """Remove members that have stood still for too long."""
        still = [one for one in self._seats.values() if now_s - one.seen_s > one.still_s]
        if still:
            self._remove(still)

    def next_removal_s(self) -> float:
        """Return the monotonic time at which the next member has stood still for too long."""
        ends = (one.seen_s + one.still_s for one in self._seats.values())
        return min(ends, default=float("inf"))

    def commit(
        self, seat: GroupSeat | None, generation: int, offsets: Mapping[Partition, int]
    ) -> None:
        """Keep the offsets of a member.

        Args:
            seat: None for a client that is no member.
            generation: the last one that it has learnt of.

        Raises:
            KafkaFault: it is no member now, or of an older generation.
        """
        if seat is None:
            if self._seats:
                raise said(KafkaFault, self._address, "UnknownMemberIdError")
        elif not self._has(seat):
            raise said(KafkaFault, self._address, "UnknownMemberIdError")
        elif generation == NOBODY:
            raise said(KafkaFault, self._address, "IllegalGenerationError")
        elif generation != self.generation:
            raise said(KafkaFault, self._address, "RebalanceInProgressError", is_passing=True)
        self.offsets |= offsets

    def forget(self, topic: str) -> None:
        """Forget the offsets of a topic that is deleted."""
        self.offsets = {one: at for one, at in self.offsets.items() if one[0] != topic}

    def _has(self, seat: GroupSeat) -> bool:
        return self._seats.get(seat.member_id) is seat

    def _topics(self) -> frozenset[str]:
        return frozenset().union(*(one.topics for one in self._seats.values()))

    def _remove(self, gone: Collection[GroupSeat]) -> None:
        for one in gone:
            del self._seats[one.member_id]
        if not self._is_rebalancing:
            self._rebalance()
        self._end_rebalance()

    def _rebalance(self) -> None:
        self._is_rebalancing = True
        for one in self._seats.values():
            one.has_joined = False

    def _end_rebalance(self) -> None:
        """Begin a new generation, where all have joined."""
        if not all(one.has_joined for one in self._seats.values()):
            return
        self._is_rebalancing = False
        self.generation += 1
        self._counts = self._count(self._topics())
        members = {one.member_id: one.topics for one in self._seats.values()}
        owned = {one.member_id: one.owned for one in self._seats.values()}
        if any(one.is_cooperative for one in self._seats.values()):
            given = by_owners(members, self._counts, owned)
        else:
            given = by_ranges(members, self._counts)
        for name, seat in self._seats.items():
            # A partition is given when its owner has given it up, and joined anew.
            others = frozenset[Partition]().union(*(owned[one] for one in owned if one != name))
            seat.assigned = frozenset(given[name]) - others
