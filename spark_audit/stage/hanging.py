"""Transactions that have been open since before a day's end, and hide records of that day.

Workers and the audit read committed records: to both a partition ends before its first open
transaction. One that its producer never ends hides all that comes after it, and a day would be
called good of which nobody has seen the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

from feedback.kafka.questions import KafkaQuestions
from feedback.kafka.values import Partition


def hidden_records(
    kafka: KafkaQuestions,
    committed_ends: Mapping[Partition, int],
    log_ends: Mapping[Partition, int],
    *,
    until_ms: int,
) -> dict[Partition, str]:
    """Return a sentence for each partition with records of the day behind an open transaction.

    Args:
        committed_ends: where its first open transaction begins, or its log ends.
        log_ends: where its log ended, asked for before the others.
        until_ms: epoch ms, the end of the day's window.
    """
    behind = {one: end for one, end in committed_ends.items() if end < log_ends[one]}
    if not behind:
        return {}
    later = kafka.at_time(behind, until_ms)
    # Where no record is so late, all of them are the day's, or older.
    hidden = {one: end for one, end in behind.items() if not 0 <= later[one] <= end}
    return {
        (topic, number): (
            f"what {topic}-{number} has from offset {end} on: a transaction is open there since "
            "before the day's end, and workers do not read on either: find its producer with "
            "kafka-transactions.sh, by find-hanging"
        )
        for (topic, number), end in hidden.items()
    }
