"""Knows of a record whether it may lie in one of kafka-python's batches.

A signal handler may raise an error of any kind at any step of a send. Its kind says nothing of the
record, and neither does the call in which it was raised: only the batches know. Importing this
module lets them say so.
"""

from __future__ import annotations

from typing import Any

from kafka.producer import record_accumulator

import feedback.kafka.kafka_python.retries  # noqa: F401 - its batch is the base of ours


class OfferedHeaders(list[tuple[str, bytes]]):
    """The headers of one record.

    Attributes:
        may_be_stored: a batch may have the record, which may go to Kafka at any moment.
    """

    may_be_stored = False


class _OfferedBatch(record_accumulator.ProducerBatch):  # type: ignore[misc]  # it has no types
    """A batch that tells the records that it is given."""

    def try_append(
        self, timestamp_ms: Any, key: Any, value: Any, headers: Any, now: Any = None
    ) -> Any:
        """Add a record; None where there is no room for it. See kafka-python."""
        if not isinstance(headers, OfferedHeaders):
            return super().try_append(timestamp_ms, key, value, headers, now=now)
        headers.may_be_stored = True
        future = super().try_append(timestamp_ms, key, value, headers, now=now)
        if future is None:
            headers.may_be_stored = False
        return future


record_accumulator.ProducerBatch = _OfferedBatch
