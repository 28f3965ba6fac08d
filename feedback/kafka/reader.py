"""Reads records again from Kafka by their coordinates, or finds that they are gone.

A resend needs it where no payload was stored, and so does a sweep that runs a request again. Gone
means that it can never be read again: below the log's start (retention), no longer among the
records (compaction, an aborted transaction), beyond its end or without its topic (deleted, created
anew). In a topic that was created anew, another record may stand at those coordinates. Only its
hash tells, so the caller compares that.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import TopicDescription
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault, OffsetGone, TopicAbsent, TopicRefused
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

# An existing record comes within milliseconds: after so long the broker is asked about the topic.
SILENCE_S = 0.5
# One record is wanted; a broker sends a whole batch in any case, however large it is.
FETCH_BYTES = 65_536
# To read over so many records takes less time than to ask for a further one.
NEAR = 100


class ReadForbidden(KafkaUnavailable):
    """This user may not read the topic: a person has to allow it."""


class RecordReader:
    """Reads single records, over a connection that is made at the first. Safe to share.

    Args:
        settings: brokers and security; no group is joined, nothing is committed.
        committed_only: whether a record of a transaction that is open, or was aborted, is none.
    """

    def __init__(self, settings: KafkaSection, *, committed_only: bool = True) -> None:
        self._settings = settings
        self._committed_only = committed_only
        self._reader: PartitionReader | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, topic: str, partition: int, offset: int, *, timeout_s: float) -> Record | None:
        """Return the record at these coordinates; None when there is none any more.

        Args:
            timeout_s: seconds to wait for Kafka, the connection included.

        Raises:
            ReadForbidden: this user may not read the topic.
            KafkaUnavailable: Kafka did not answer in time or refused; nothing is known.
        """
        return self._reading((topic, partition), [offset], timeout_s)[offset]

    def read_many(
        self, topic: str, partition: int, offsets: Sequence[int], *, timeout_s: float
    ) -> dict[int, Record | None]:
        """Return the records at these offsets, each as `read` returns it; those that lie close
        together are fetched together.

        Args:
            offsets: ascending.
            timeout_s: seconds to wait for Kafka each time that it is asked.

        Raises:
            ReadForbidden, KafkaUnavailable: as for `read`.
        """
        found: dict[int, Record | None] = {}
        for number, offset in enumerate(offsets):
            if offset not in found:
                found |= self._reading((topic, partition), offsets[number:], timeout_s)
        return found

    def _reading(
        self, where: Partition, offsets: Sequence[int], timeout_s: float
    ) -> dict[int, Record | None]:
        """Return the record at the first of these offsets, and those that came with it."""
        deadline_s = monotonic_s() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise KafkaUnavailable(self._away("others are reading"))
        found: dict[int, Record | None] = {}
        try:
            found[offsets[0]] = self._read(where, offsets[0], deadline_s)
            if found[offsets[0]] is not None:
                found.update(self._that_came_along(where, offsets[1:]))
            return found
        except OffsetGone:
            # Retention may have come behind the first of them.
            return {offsets[0]: None} | found
        except TopicRefused as error:
            self._disconnect()
            raise ReadForbidden(str(error)).because(error.fault) from error
        except KafkaFault as error:
            self._disconnect()
            if error.fault is not None or not error.words:
                raise
            raise KafkaUnavailable(self._away(error.words)) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection; a later read makes a new one."""
        with self._lock:
            self._disconnect()

    def _read(self, where: Partition, offset: int, deadline_s: float) -> Record | None:
        reader = self._connected(deadline_s)
        reader.assign({where: offset})
        began_s = monotonic_s()
        for longest_s in (SILENCE_S, math.inf):
            wait_s = min(longest_s, max(0.0, deadline_s - monotonic_s()))
            for found in reader.poll(wait_s, max_records=1):
                return found if found.offset == offset else None
            # A missing topic is read in silence, until the time is over.
            if longest_s == SILENCE_S and not self._exists(where, deadline_s):
                return None
        end = reader.end(where)
        if end is None:
            why = reader.why_away(since_s=began_s)
            said = "it does not answer" if why.fault is None else why.fault.said
            raise KafkaUnavailable(self._away(said)).because(why.fault)
        # It answered all that time and has no record there. The log ends before the offset (a new
        # leader would know its true end sooner), or compaction or an aborted transaction left no
        # record.
        if end > offset and reader.position(where) <= offset:
            raise KafkaUnavailable(self._away("it does not give the record"))
        return None

    def _that_came_along(
        self, where: Partition, offsets: Sequence[int]
    ) -> Iterator[tuple[int, Record | None]]:
        """Yield what the last fetch has of these offsets, behind the record that was read."""
        reader, left = self._reader, deque(offsets)
        while reader is not None and left and left[0] - reader.position(where) < NEAR:
            records = reader.poll(0.0, max_records=NEAR)
            if not records:
                return
            for one in records:
                while left and left[0] < one.offset:
                    yield left.popleft(), None
                if left and left[0] == one.offset:
                    yield left.popleft(), one

    def _connected(self, deadline_s: float) -> PartitionReader:
        if self._reader is None:
            reading = ReadingPlan(
                FETCH_BYTES,
                FETCH_BYTES,
                connect_s=deadline_s - monotonic_s(),
                committed_only=self._committed_only,
            )
            self._reader = engine_of(self._settings).reader(self._settings, reading)
        return self._reader

    def _exists(self, where: Partition, deadline_s: float) -> bool:
        """Whether the broker knows the partition; asked over a connection of its own.

        Raises:
            TopicRefused: this user may not even see the topic, which is read in silence as well.
        """
        with administrator(self._settings, timeout_s=deadline_s - monotonic_s()) as admin:
            found = admin.describe([where[0]])[where[0]]
        if isinstance(found, TopicDescription):
            return where[1] in found.partitions
        if isinstance(found, TopicRefused):
            raise found
        return not isinstance(found, TopicAbsent)

    def _disconnect(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _away(self, why: str) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} is away: {why}"


def read_record(
    settings: KafkaSection, topic: str, partition: int, offset: int, timeout_s: float
) -> Record | None:
    """Return one record over a connection of its own; see `RecordReader.read`."""
    with RecordReader(settings) as reader:
        return reader.read(topic, partition, offset, timeout_s=timeout_s)
