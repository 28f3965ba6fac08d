"""Mends a fault of kafka-python 3.0's reading, seen on a real broker."""

from __future__ import annotations

from typing import Any


def mend(consumer: Any) -> None:
    """Mend one `KafkaConsumer`, before its first poll.

    kafka-python hands out the records of one partition at a time, its current one. It puts the
    records of a paused partition away, and takes them back when there is no current one. A
    partition that had handed out its last record stayed the current one. So with two partitions put
    away the second was never taken back; and since its records were there, they were never fetched
    again.
    """
    fetcher = consumer._fetcher
    read = fetcher.fetched_records

    def free_the_place_and_read(*given: Any, **named: Any) -> Any:
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        return read(*given, **named)

    fetcher.fetched_records = free_the_place_and_read
