"""Which of the offsets that librdkafka tells with an acknowledgement are places. Pure."""

from __future__ import annotations

from math import inf

from feedback.kafka.values import Partition


class AcknowledgedOffsets:
    """The last acknowledged offset of each partition, of one producer.

    librdkafka also counts a record as acknowledged that the broker calls a duplicate, and its
    offset is then -1. It counts on from there for the next records of that batch: 0, 1 and so on.
    A producer writes in order, so an offset that is not above its last one is none of its records'.
    After one of them nothing more is believed of that partition: the next producer begins anew, as
    also where a topic was deleted and made again.
    """

    def __init__(self) -> None:
        self._last: dict[Partition, float] = {}

    def is_place(self, partition: Partition, offset: int | None) -> bool:
        """Return whether a record is stored at this offset, and note it."""
        is_place = offset is not None and offset > self._last.get(partition, -1)
        self._last[partition] = offset if is_place and offset is not None else inf
        return is_place
