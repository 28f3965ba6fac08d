"""The chain of runs: which day judges which offset, so that each is judged once. Pure.

A record's time is its sender's word. A clock may be wrong, and a record may arrive after the run of
the day that it names. So a run takes every offset that no run has taken yet, up to the end of its
partition, at any record time: but for those whose time lies between the window's end and the
freeze, for which a later day will come.

The offsets that a run takes are kept as a reach: offsets, and the two times. Runs are numbered in
the order in which they were made, and an offset belongs to the day of the first reach that takes
it, for ever: also when days are judged late, in another order, or again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

# The begin of 2011, the year of Kafka's first release: an older record is of no day.
STRAY_MS = 1_293_840_000_000

PartitionName = tuple[str, int]
OffsetRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RunReach:
    """The offsets that one run takes of a partition, unless an earlier one did.

    Args:
        strays_from: from this offset up to `first` it takes records older than Kafka. A folder's
            first run does: the other records there are of days before it.
    """

    number: int
    date: str
    first: int
    after: int
    until_ms: int
    frozen_at_ms: int
    strays_from: int

    def takes(self, offset: int, timestamp_ms: int) -> bool:
        """Return whether the run takes a record."""
        if self.first <= offset < self.after:
            return timestamp_ms < self.until_ms or timestamp_ms > self.frozen_at_ms
        return self.strays_from <= offset < self.first and timestamp_ms < STRAY_MS


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One partition of the chain, as a run's manifest has it.

    Args:
        topic_id: of Kafka, another one where a topic was deleted and made again; may be empty.
        first: the run takes no offset below, but for strays.
        reaches: of all runs that took or take something from `first` on, by number.
        is_by_time: `first` is that of the window's first record: nobody has judged the offsets
            before it.
        next_first: every offset below is taken, and the next run begins here.
        judged: how many records are the day's own.
        silent: how many offsets are the day's own and no records: marks of transactions, aborted or
            compacted records, or missing ones.
        gone: how many offsets would be the day's own, and retention took them before.
        waiting: how many records are left to later days.
    """

    topic: str
    partition: int
    topic_id: str
    first: int
    reaches: tuple[RunReach, ...]
    is_by_time: bool = False
    next_first: int = 0
    judged: int = 0
    silent: int = 0
    gone: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run that was made."""

    date: str
    number: int
    until_ms: int
    frozen_at_ms: int
    links: Mapping[PartitionName, ChainLink]

    @property
    def reached_at_ms(self) -> int:
        """Epoch ms, when the freeze was made by which it took its offsets: a day that is read again
        after a later one takes no others."""
        reaches = (one for link in self.links.values() for one in link.reaches)
        own = (one.frozen_at_ms for one in reaches if one.date == self.date)
        return max(own, default=self.frozen_at_ms)


@dataclass(frozen=True, slots=True)
class ChainStart:
    """Where a run begins on a partition.

    Args:
        first: None for the first record of the window.
        is_first: nobody has judged the topic before.
        lost_from: the offset from which the partition of the last run is gone, because the topic
            was made anew or its log was cut; None when it is not.
    """

    first: int | None
    reaches: tuple[RunReach, ...] = ()
    is_first: bool = False
    lost_from: int | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """The runs before one of a day.

    Args:
        pasts: those that were made, its own earlier ones included.
    """

    date: str
    pasts: Sequence[EarlierRun] = ()

    @property
    def number(self) -> int:
        """The number of the run that is to be made."""
        return 1 + max((past.number for past in self.pasts), default=0)

    @property
    def own(self) -> EarlierRun | None:
        """The earlier run of the same day."""
        return next((past for past in self.pasts if past.date == self.date), None)

    @property
    def before_ms(self) -> int:
        """Epoch ms, up to when the day before had taken everything; 0 where there is none.

        Not the latest run of all: one of an older day, made late, has taken little of what came
        since.
        """
        earlier = [past for past in self.pasts if past.date < self.date]
        return max(earlier, key=lambda past: past.date).reached_at_ms if earlier else 0

    def is_fixed(self, until_ms: int) -> bool:
        """Return whether the day's offsets stay as they are: it was frozen after its end, and a
        later run goes on from there.

        Args:
            until_ms: epoch ms, the end of its window now.
        """
        own = self.own
        if own is None or not own.frozen_at_ms >= own.until_ms >= until_ms:
            return False
        return any(past.number > own.number for past in self.pasts)

    def start(
        self, place: PartitionName, topic_id: str, *, end: int, is_derived: bool
    ) -> ChainStart:
        """Return where the run begins on a partition.

        Args:
            topic_id: as Kafka says.
            end: the offset after the partition's last, also where the run reads less.
            is_derived: it is of a topic that is found by that of its requests, and not by name.
        """
        seen = [(one.date, one.links[place]) for one in self.pasts if place in one.links]
        links = {date: link for date, link in seen if link.topic_id == topic_id}
        if seen and not links:
            return ChainStart(0, lost_from=max(link.next_first for _, link in seen))
        if not links:
            is_known = any(place[0] == topic for past in self.pasts for topic, _ in past.links)
            # Nothing of it is older than the last run, which would have seen it.
            is_new = is_known or (is_derived and bool(self.pasts))
            return ChainStart(0 if is_new else None, is_first=not is_new)
        reaches = {one.number: one for link in links.values() for one in link.reaches}
        return self._start(links, [reaches[number] for number in sorted(reaches)], end)

    def _start(
        self, links: dict[str, ChainLink], reaches: Sequence[RunReach], end: int
    ) -> ChainStart:
        first: int | None = None
        earlier = [date for date in links if date < self.date]
        if self.date in links:
            first = links[self.date].first
        elif earlier:
            first = links[max(earlier)].next_first
        known = max(link.next_first for link in links.values())
        known = max(known, max((one.after for one in reaches), default=0))
        if end < known:
            # The broker has lost records: its offsets are given again.
            reaches = [replace(one, after=min(one.after, end)) for one in reaches]
            return ChainStart(
                None if first is None else min(first, end), tuple(reaches), lost_from=end
            )
        kept = [one for one in reaches if first is None or one.after > first]
        return ChainStart(first, tuple(kept))


def first_reached(reaches: Iterable[RunReach], date: str) -> Iterator[OffsetRange]:
    """Yield the offsets that a day is the first to reach, with or without a record: (first, after).

    An offset without a record has no time: it is the day's that came by first.
    """
    taken: list[OffsetRange] = []
    for one in reaches:
        free = [(one.first, one.after)]
        for first, after in taken:
            free = [part for some in free for part in _without(some, first, after)]
        if one.date == date:
            yield from sorted(part for part in free if part[0] < part[1])
        taken.append((one.first, one.after))


def _without(stretch: OffsetRange, first: int, after: int) -> Iterator[OffsetRange]:
    begin, end = stretch
    if begin < min(end, first):
        yield begin, min(end, first)
    if max(begin, after) < end:
        yield max(begin, after), end
