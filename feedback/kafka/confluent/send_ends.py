"""What librdkafka's word about a client's record means: stored, certainly not stored, or unknown.

Whether a record that failed may be in Kafka is known to librdkafka (`rd_kafka_message_status`), and
confluent-kafka 2.16.1 does not say it. So a record is refused only where its error is a broker's
answer to a request that stores nothing, and it was in no earlier request. A sender that is not
idempotent tells librdkafka to try once. Where a leader says that it is none, or that there is no
such partition, librdkafka tries again all the same, and a leader that resigns may have stored the
record before. It waits `OWN_PAUSE_MS` (`producer_limits`) before such a try: a refusal that is
heard as late as that may be of a second one, and says nothing of the first.

A batch is refused whole: none of its records is stored, also those that the broker would take.

That a right is missing librdkafka also says of a topic's description, and to all other records of
a topic that wait for another try, when a broker has said it of one (`rd_kafka_topic_set_error`). So
it is believed of a record alone that had no other one of its topic beside it, after a second look,
which is not here.

An idempotent producer tries again by itself, so its refusals are of no certain try.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from feedback.kafka.confluent.faults import fault_of, words_of
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown, TopicForbidden
from feedback.settings.settings import KafkaSection

# TOPIC_EXCEPTION is not among them: librdkafka says it also of topics that have gone meanwhile.
TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REFUSED = {
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.POLICY_VIOLATION,
    *TOO_LARGE,
}


def end_of_failed(
    error: Any, settings: KafkaSection, topic: str, *, is_first_try: bool
) -> RecordNotSent | RecordUnknown:
    """Return how a record ended that librdkafka has reported as failed.

    Args:
        is_first_try: whether a refusal is certainly of the first try.
    """
    if is_first_try and error.code() in _REFUSED:
        return refused(error)
    return unknown(error, settings, topic)


def unknown(error: Any, settings: KafkaSection, topic: str) -> RecordUnknown:
    """Return the error for a record that may be in Kafka."""
    found = fault_of(error, settings, operation="Write", topic=topic)
    said = words_of(error) if found is None else found.said
    return RecordUnknown(f"Kafka did not acknowledge: {said}").because(found)


def refused(error: Any) -> RecordNotSent:
    """Return the error for a record that Kafka does not take."""
    return RecordNotSent(f"Kafka refused the record: {words_of(error)}")


def forbidden(error: Any, settings: KafkaSection, topic: str) -> TopicForbidden:
    """Return the error for a broker that lets this user not write to a topic."""
    found = fault_of(error, settings, operation="Write", topic=topic)
    said = words_of(error) if found is None else found.said
    return TopicForbidden(f"Kafka refused the record: {said}", topic).because(found)
