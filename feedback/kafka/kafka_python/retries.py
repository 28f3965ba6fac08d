"""Says of a refused record that an earlier try of it may have been stored.

kafka-python 3.0 tries a record again after an answer that was lost, and after one that says that it
was stored with too few copies. It then reports the last try's error alone: a record that lies in
Kafka counts as refused if the topic takes less by then, or the user may not write any more.
Importing this module mends that.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka.errors import KafkaError
from kafka.producer import record_accumulator
from kafka.producer.producer_batch import ProducerBatch

from feedback.kafka.kafka_python.faults import in_words
from feedback.kafka.kafka_python.send_refusals import refusal_of


class RefusedRetry(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """Kafka refused a retry; the result of the earlier try is not known."""


class _RetriedBatch(ProducerBatch):  # type: ignore[misc]
    """A batch that may be refused at a retry."""

    def complete_exceptionally(
        self, top_level_exception: Exception, record_exceptions_fn: Callable[[int], KafkaError]
    ) -> bool:
        """End it with an error for each record; see kafka-python."""
        error_of = _of_retry(record_exceptions_fn) if self.attempts else record_exceptions_fn
        ended: bool = super().complete_exceptionally(top_level_exception, error_of)
        return ended


def _of_retry(error_of: Callable[[int], KafkaError]) -> Callable[[int], KafkaError]:
    def told(place: int) -> KafkaError:
        error = error_of(place)
        if refusal_of(error) is None:
            return error
        return RefusedRetry(f"{in_words(error)}; an earlier try may have been stored")

    return told


record_accumulator.ProducerBatch = _RetriedBatch
