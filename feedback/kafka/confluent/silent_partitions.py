"""Partitions of which librdkafka gets nothing though there is more, and says nothing. Pure.

A broker takes a batch whose length is corrupt for the end of its file: its answers are empty, and
librdkafka asks again for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from feedback.kafka.values import Partition

# So many statistics of librdkafka in which nothing has come of one that was not paused: 12 s, longer
# than a broker may take for an answer. When such a partition is tried again, 2 s: it must not count as back meanwhile.
LONG = 24
AGAIN = 4
# So many turns it has had in that time. While librdkafka's queue is full, it fetches nothing; and
# after the second fetch was sent, the first one was answered.
TURNS = 2.0


class Fetching(NamedTuple):
    """How a partition was fetched, by new statistics of librdkafka.

    Args:
        offset: from where it is fetched.
        has_more: its end is behind that.
        turns: the fetches that its broker was sent since the statistics before, for each partition
            that may have been the first in them. A batch that is longer than a fetch may be comes
            in those fetches alone in which its partition is the first that has more.
        is_answered: a pause has cost no answer to them, by what else is known.
    """

    offset: int
    has_more: bool = True
    turns: float = 1.0
    is_answered: bool = True


class _Silence(NamedTuple):
    """Since when nothing came.

    Args:
        position: the next record to hand out.
        furthest: the furthest place from which librdkafka has fetched since.
        statistics: how many came in that time.
        turns: see `Fetching`.
        is_named: it was too long once.
    """

    position: int
    furthest: int
    statistics: int = 0
    turns: float = 0.0
    is_named: bool = False


class SilentPartitions:
    """Counts in which statistics of librdkafka nothing has come."""

    def __init__(self) -> None:
        self._silences: dict[Partition, _Silence] = {}

    def hear(
        self,
        fetching: Mapping[Partition, Fetching],
        positions: Mapping[Partition, int],
        fetched: Collection[Partition],
        rested: Collection[Partition],
    ) -> list[Partition]:
        """Return the partitions that are silent for too long.

        Args:
            fetching: by new statistics.
            positions: the next record to hand out of each of these.
            fetched: those of them of which records are to come now. In a pause nothing is counted,
                and nothing forgotten: a worker with a full buffer pauses again and again.
            rested: those of them that were paused at some time since the statistics before.
        """
        before = self._silences
        # Of one that was named and is not fetched now nothing is known: no leader, for example.
        self._silences = {
            place: one for place, one in before.items() if one.is_named and place not in fetching
        }
        silent: list[Partition] = []
        for place, one in fetching.items():
            if not one.has_more:
                continue
            now = before.get(place)
            # Behind a pause it fetches offsets without a record again, as marks of transactions.
            if now is None or now.position != positions[place] or one.offset > now.furthest:
                now = _Silence(positions[place], one.offset)
            elif place in fetched:
                turns = one.turns if one.is_answered or place not in rested else 0.0
                now = now._replace(statistics=now.statistics + 1, turns=now.turns + turns)
            if now.statistics >= LONG and now.turns >= TURNS:
                silent.append(place)
                now = now._replace(statistics=LONG - AGAIN, is_named=True)
            self._silences[place] = now
        return silent

    def is_silent(self, place: Partition) -> bool:
        """Say whether one was named, and nothing has come of it since."""
        found = self._silences.get(place)
        return found is not None and found.is_named

    def forget(self, places: Collection[Partition]) -> None:
        """Forget these: they are another member's."""
        for one in places:
            self._silences.pop(one, None)
