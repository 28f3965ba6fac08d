"""A record whose time Spark cannot hold: its reader multiplies milliseconds by a thousand.

A sender that gives nanoseconds for milliseconds writes such a time, and brokers before Kafka 4 take
it by default. The error names no record, and each later audit would end with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from feedback.errors import NotAvailable
from feedback.kafka.questions import asking
from feedback.settings.settings import KafkaSection
from spark_audit.stage.manifest import Manifest

# The first millisecond of which the microseconds are no 64-bit number.
UNREADABLE_MS = (2**63 - 1) // 1000 + 1


@contextmanager
def naming_unreadable_times(settings: KafkaSection, manifest: Manifest) -> Iterator[None]:
    """Turn a failure to read records into the name of the record that Spark cannot read.

    Args:
        manifest: the limits within which records are read.

    Raises:
        NotAvailable: names the first such record; or as it was raised, where there is none.
    """
    try:
        yield
    except NotAvailable as error:
        places = {(one.topic, one.partition): one for one in manifest.partitions}
        with asking(settings) as kafka:
            found = kafka.at_time(places, UNREADABLE_MS)
        for (topic, number), offset in sorted(found.items()):
            limits = places[topic, number]
            if limits.begin <= offset < limits.end:
                raise NotAvailable(
                    f"the record {topic}-{number} at offset {offset} has a time that Spark cannot "
                    "read (are its sender's nanoseconds taken for milliseconds?): no audit reads "
                    "beyond it while Kafka has it; when its workers have delivered it, delete up "
                    "to it (kafka-delete-records.sh), and let message.timestamp.after.max.ms of "
                    "the topic refuse such times"
                ) from error
        raise
