"""Partitions of which librdkafka gets nothing though there is more, and says nothing. Pure.

A broker takes a batch whose length is corrupt for the end of its file: its answers are empty, and
librdkafka asks again for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from feedback.kafka.values import Partition

# So many statistics of librdkafka in which nothing has come: 12 s, longer than a broker may take
# for an answer. When such a partition is tried again, 2 s: it must not count as back meanwhile.
LONG = 24
AGAIN = 4


class _Silence(NamedTuple):
    """Since when nothing came.

    Args:
        position: the next record to hand out.
        furthest: the furthest place from which librdkafka has fetched since.
        statistics: how many came in that time.
    """

    position: int
    furthest: int
    statistics: int = 0


class SilentPartitions:
    """Counts in which statistics of librdkafka nothing has come."""

    def __init__(self) -> None:
        self._silences: dict[Partition, _Silence] = {}

    def hear(
        self,
        behind: Mapping[Partition, int],
        positions: Mapping[Partition, int],
        fetched: Collection[Partition],
    ) -> list[Partition]:
        """Return the partitions that are silent for too long.

        Args:
            behind: from where librdkafka fetches partitions that have more, by new statistics.
            positions: the next record to hand out of each of these.
            fetched: those of them of which records are to come now. In a pause nothing is counted,
                and nothing forgotten: a worker with a full buffer pauses again and again.
        """
        before, self._silences = self._silences, {}
        silent: list[Partition] = []
        for place, offset in behind.items():
            now = before.get(place)
            # Behind a pause it fetches offsets without a record again, as marks of transactions.
            if now is None or now.position != positions[place] or offset > now.furthest:
                now = _Silence(positions[place], offset)
            elif place in fetched:
                now = now._replace(statistics=now.statistics + 1)
            if now.statistics >= LONG:
                silent.append(place)
                now = now._replace(statistics=LONG - AGAIN)
            self._silences[place] = now
        return silent
