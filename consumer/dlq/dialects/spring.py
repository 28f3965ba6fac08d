"""Spring for Apache Kafka: `kafka_dlt-*` by default, `kafka_*` of retry topics; binary numbers."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said, simple_name
from consumer.dlq.letter import Failure, Original

_ATTEMPTS = "retry_topic-attempts"


def spring(said: Said) -> Failure | None:
    """Return the failure in a letter of a Spring application; None when it is none.

    The listener container wraps the error into an exception of its own, so the cause is the class.
    """
    for prefix in ("kafka_dlt-", "kafka_"):
        names = ("original-topic", "exception-fqcn", "key-exception-fqcn")
        if said.has(*(f"{prefix}{name}" for name in names)):
            return _failure(said, prefix)
    return None


def _failure(said: Said, prefix: str) -> Failure:
    # Where the key or the value itself could not be read, its own exception is reported.
    kind = "" if said.has(f"{prefix}exception-fqcn") else "key-"
    error_class = said.text(f"{prefix}{kind}exception-cause-fqcn") or said.text(
        f"{prefix}{kind}exception-fqcn"
    )
    return Failure(
        original=Original(
            topic=said.text(f"{prefix}original-topic", first=True),
            partition=said.binary(f"{prefix}original-partition", first=True),
            offset=said.binary(f"{prefix}original-offset", first=True),
            timestamp_ms=said.binary(f"{prefix}original-timestamp", first=True),
        ),
        reason=simple_name(error_class),
        exception_class=error_class,
        exception_message=said.text(f"{prefix}{kind}exception-message"),
        stack=said.text(f"{prefix}{kind}exception-stacktrace"),
        attempts=said.binary(_ATTEMPTS),
        group=said.text(f"{prefix}original-consumer-group"),
    )
