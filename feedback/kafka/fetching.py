"""Mends a fault of kafka-python 3.0's reading, seen on a real broker."""

from __future__ import annotations

from typing import Any


def mend(consumer: Any) -> None:
    """Mend one `KafkaConsumer`, before its first poll.

    Of a partition that is paused while some of its records are still to be handed out, these are
    put away, and taken back when the place of the one partition whose turn it is is free. What has
    handed out its last record still took that place: with two partitions put away the second was
    never taken back, and since its records were there, never fetched again either.
    """
    fetcher = consumer._fetcher
    read = fetcher.fetched_records

    def free_the_place_and_read(*given: Any, **named: Any) -> Any:
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        return read(*given, **named)

    fetcher.fetched_records = free_the_place_and_read
