"""Transactions that have been open since before a day's end, and hide records of that day.

Workers and the audit read committed records: to both a partition ends before its first open
transaction. One that its producer never ends hides all that comes after it, and a day would be
called good of which nobody has seen the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.questions import KafkaQuestions
from feedback.kafka.reader import RecordReader
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.settings.sections import KafkaSection

READ_LIMIT_S = 10.0
# Kafka aborts a transaction after `transaction.timeout.ms`, which is a minute unless its producer
# says otherwise: a shorter one ends meanwhile.
PATIENCE_S = 60.0
_LOOK_S = 1.0
_LOG = EventLog("onceward.audit")


def hidden_records(
    settings: KafkaSection,
    kafka: KafkaQuestions,
    committed_ends: Mapping[Partition, int],
    log_ends: Mapping[Partition, int],
    *,
    until_ms: int,
    now_ms: int,
) -> dict[Partition, str]:
    """Return a sentence for each partition with records of the day behind an open transaction.

    A transaction is taken for one of the day by the time of its first record, and where that says
    nothing. Of these, one that ends within `PATIENCE_S` hides nothing: the next day has the rest.

    Args:
        committed_ends: where its first open transaction begins, or its log ends; of partitions of
            which the day would go on there.
        log_ends: where its log ended, asked for before the others.
        until_ms: epoch ms, the end of the day's window.
        now_ms: epoch ms; a later time is that of a wrong clock.

    Raises:
        NotAvailable: Kafka is away.
    """
    behind = {one: end for one, end in committed_ends.items() if end < log_ends[one]}
    with RecordReader(settings, committed_only=False) as reader:

        def is_old(where: Partition, offset: int) -> bool:
            return not until_ms <= _time_of(reader, where, offset) <= now_ms

        old = {one: end for one, end in behind.items() if is_old(one, end)}
        deadline_s = monotonic_s() + PATIENCE_S
        while old and monotonic_s() < deadline_s:
            time.sleep(_LOOK_S)
            ends = kafka.committed_ends(old)
            # Behind one that has ended another may be open.
            old = {
                one: ends[one]
                for one, end in old.items()
                if ends[one] == end or (ends[one] < log_ends[one] and is_old(one, ends[one]))
            }
    return {
        (topic, number): (
            f"what {topic}-{number} has from offset {end} on: a transaction is open there since "
            "before the day's end, and workers do not read on either: find its producer with "
            "kafka-transactions.sh, by find-hanging"
        )
        for (topic, number), end in old.items()
    }


def _time_of(reader: RecordReader, where: Partition, offset: int) -> int:
    """Return the time of a record in epoch ms; -1 where it has none, or cannot be read now."""
    try:
        found = reader.read(*where, offset, timeout_s=READ_LIMIT_S)
    except KafkaUnavailable as error:
        # The staging meets the same fault, and has more patience.
        _LOG.warning("audit.day_end_unread", reason=str(error))
        return -1
    return -1 if found is None else found.timestamp_ms
