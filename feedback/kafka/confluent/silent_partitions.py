"""Partitions of which librdkafka gives nothing though there is more, and says nothing.

A broker takes a batch whose length is corrupt for the end of its file: its answers are empty, and
librdkafka asks again for ever. In a worker with a backlog a partition may wait as long for its
turn. So another library is asked for the record, in a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import NamedTuple

from feedback.clock import monotonic_s
from feedback.kafka.errors import KafkaFault, OffsetGone
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.values import Partition
from feedback.logs import EventLog

log = EventLog("onceward.kafka")

# A partition is asked about when nothing has come of it for so long, and then as often.
LONG_S = 12.0
# So long after an answer others are asked about; and those that are silent, each time.
AGAIN_S = 4.0
# The other library gets nothing for so long, though the partition's leader answers.
SILENCE_S = 3.0
_POLL_S = 0.2
PLAN = ReadingPlan(65_536, 65_536, connect_s=SILENCE_S)


class Unread(NamedTuple):
    """The offset from which the next record of a partition is to come, and the end of them all."""

    offset: int
    end: int


# A partition, and the offset from which nothing comes.
_Standstill = tuple[Partition, int]


class SilentPartitions:
    """Finds them. Belongs to the thread that polls.

    Args:
        connect: makes a reader of the other library.
    """

    def __init__(self, connect: Callable[[], PartitionReader]) -> None:
        self._connect = connect
        self._since: dict[_Standstill, float] = {}
        self._silent: set[_Standstill] = set()
        self._asked: Future[dict[_Standstill, bool]] | None = None
        self._due_s = 0.0
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-silence")

    def among(
        self, unread: Mapping[Partition, Unread], wanted: Collection[Partition]
    ) -> list[Partition]:
        """Return the silent ones.

        Args:
            unread: all partitions that have more.
            wanted: those that were not paused all the time since the last call; of no others a
                silence is told, or begins.
        """
        now_s = monotonic_s()
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            self._hear(asked, now_s)
        ends = {(place, one.offset): one.end for place, one in unread.items()}
        self._since = {one: self._since.get(one, now_s) for one in ends}
        self._silent &= ends.keys()
        long = {one for one, since_s in self._since.items() if since_s + LONG_S <= now_s}
        doubtful = self._silent.union(one for one in long if one[0] in wanted)
        if doubtful and self._asked is None and self._due_s <= now_s:
            self._asked = self._thread.submit(self._ask, {one: ends[one] for one in doubtful})
        return [place for place, _ in self._silent if place in wanted]

    def _hear(self, asked: Future[dict[_Standstill, bool]], now_s: float) -> None:
        self._due_s = now_s + AGAIN_S
        if (error := asked.exception()) is not None:
            # A fault of the other library: it must not end a worker that reads by librdkafka.
            log.warning("partition.not_asked", reason=f"{type(error).__name__}: {error}")
            return
        answers = asked.result()
        self._since |= dict.fromkeys(answers, now_s)
        self._silent -= answers.keys()
        self._silent |= {one for one, is_silent in answers.items() if is_silent}

    def close(self) -> None:
        """Ask no more."""
        self._closing.set()
        self._thread.shutdown()

    def _ask(self, ends: Mapping[_Standstill, int]) -> dict[_Standstill, bool]:
        with suppress(KafkaFault), closing(self._connect()) as reader:
            return {one: self._is_silent(reader, *one, end) for one, end in ends.items()}
        return {}

    def _is_silent(self, reader: PartitionReader, place: Partition, offset: int, end: int) -> bool:
        try:
            return self._gives_nothing(reader, place, offset, end)
        except OffsetGone:
            return False
        except KafkaFault as error:
            # A batch that cannot be taken apart. Of a refusal librdkafka says so itself.
            return error.fault is None and not error.is_passing

    def _gives_nothing(
        self, reader: PartitionReader, place: Partition, offset: int, end: int
    ) -> bool:
        reader.assign({place: offset})
        until_s = monotonic_s() + SILENCE_S
        while monotonic_s() < until_s and not self._closing.is_set():
            if reader.poll(_POLL_S, max_records=1):
                return False
            # Offsets without a record are passed, as those of aborted transactions.
            if (passed := reader.position(place)) > offset:
                offset, until_s = passed, monotonic_s() + SILENCE_S
        known = reader.end(place)
        return known is not None and offset < min(known, end)
