"""Mends faults of kafka-python 3.0's reading, each seen on a real broker."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from kafka import TopicPartition
from kafka.errors import CorruptRecordError, KafkaError


def mend(consumer: Any) -> None:
    """Mend one `KafkaConsumer`, before its first poll.

    kafka-python hands out the records of one partition at a time, its current one. It puts the
    records of a paused partition away, and takes them back when there is no current one. A
    partition that had handed out its last record stayed the current one. So with two partitions put
    away the second was never taken back; and since its records were there, they were never fetched
    again.

    Records that cannot be read, as those of a corrupt batch, kept their partition the current one
    as well: the poll after the one that had raised it never ended. They are dropped here, and
    fetched again by the next poll. Not all errors named the partition; each has it as its last
    argument now. Where a batch's length is corrupt the error was none of Kafka's.
    """
    fetcher = consumer._fetcher
    read, parse, take = fetcher.fetched_records, fetcher._parse_fetched_data, fetcher._append

    def free_the_place_and_read(*given: Any, **named: Any) -> Any:
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        return read(*given, **named)

    def parse_or_name(completed: Any) -> Any:
        try:
            return parse(completed)
        except Exception as error:
            raise _named(error, completed.topic_partition) from error

    def take_or_drop(drained: Any, records: Any, *given: Any) -> Any:
        with ExitStack() as unread:
            unread.callback(records.drain)
            try:
                taken = take(drained, records, *given)
            except Exception as error:
                raise _named(error, records.topic_partition) from error
            unread.pop_all()
            return taken

    fetcher.fetched_records = free_the_place_and_read
    fetcher._parse_fetched_data = parse_or_name
    fetcher._append = take_or_drop


def _named(error: Exception, place: TopicPartition) -> KafkaError:
    if isinstance(error, KafkaError):
        error.args += (place,)
        return error
    return CorruptRecordError(f"its records cannot be taken apart: {error!r}", place)
