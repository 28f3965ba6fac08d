"""Letters of each dialect, with the bytes that its writer puts into the headers."""

import struct

import pytest

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.letter import Dialect, Failure, Original
from feedback.records.envelope import Headers
from tests.consumer.dlq.samples import FAILED_AT, headers, letter, record

SENT_AT = 1_700_000_000_000


def test_a_letter_of_ours_says_everything() -> None:
    found = letter("pay-1", DLQ_REDRIVE_COUNT="2", DLQ_REDRIVE_ID="r-9", DLQ_REDRIVE_BY="ann@host")
    assert (found.dialect, found.request_id, found.key) == (Dialect.ONCEWARD, "pay-1", b"card-1")
    assert found.failure == Failure(
        original=Original("payments", 3, 41, SENT_AT),
        reason="HANDLER_ERROR",
        code="HANDLER_ERROR",
        stage="run",
        exception_class="builtins.OSError",
        exception_message="OSError: the bank is on fire",
        stack="Traceback (most recent call last):\n  …\nOSError",
        attempts=1,
        first_failed_at=FAILED_AT - 1000,
        failed_at=FAILED_AT,
        redrive_count=2,
        redrive_id="r-9",
        redrive_by="ann@host",
        group="g",
    )


CONNECT: Headers = (
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"3000000000"),
    ("__connect.errors.connector.name", b"jdbc-sink"),
    ("__connect.errors.task.id", b"0"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
    (
        "__connect.errors.exception.class.name",
        b"org.apache.kafka.connect.errors.DataException",
    ),
    ("__connect.errors.exception.message", b"Converting byte[] failed"),
    ("__connect.errors.exception.stacktrace", b"org.apache...\n\tat a.B(C.java:1)"),
)
STREAMS: Headers = (
    ("__streams.errors.exception", b"java.lang.IllegalStateException: no: such state"),
    ("__streams.errors.message", b"no: such state"),
    ("__streams.errors.stacktrace", b"java.lang...\n\tat a.B(C.java:1)"),
    ("__streams.errors.topic", b"clicks"),
    ("__streams.errors.partition", b"12"),
    ("__streams.errors.offset", b"9"),
)
SHARE: Headers = (
    ("__dlq.errors.topic", b"jobs"),
    ("__dlq.errors.partition", b"2"),
    ("__dlq.errors.offset", b"41"),
    ("__dlq.errors.group", b"share-1"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)
SPRING: Headers = (
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", bytes([0, 0, 0, 2])),
    ("kafka_dlt-original-offset", bytes([0, 0, 0, 0, 0xB2, 0xD0, 0x5E, 0x00])),
    ("kafka_dlt-original-timestamp", struct.pack(">q", SENT_AT)),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
    (
        "kafka_dlt-exception-fqcn",
        b"org.springframework.kafka.listener.ListenerExecutionFailedException",
    ),
    ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalArgumentException"),
    ("kafka_dlt-exception-message", b"Listener failed; amount"),
    ("kafka_dlt-exception-stacktrace", b"org.springframework..."),
)
SPRING_RETRY: Headers = (
    ("kafka_original-topic", b"orders"),
    ("kafka_original-partition", struct.pack(">i", 1)),
    ("kafka_original-offset", struct.pack(">q", 17)),
    ("kafka_original-timestamp", struct.pack(">q", SENT_AT)),
    ("kafka_exception-fqcn", b"java.io.IOException"),
    ("kafka_exception-message", b"broken pipe"),
    ("retry_topic-attempts", struct.pack(">i", 4)),
    ("retry_topic-backoff-timestamp", b"\x01\x8b\xcf\xe5h\x00"),
)
SPRING_KEY: Headers = (
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-key-exception-fqcn", b"org.apache.kafka.common.errors.SerializationException"),
    ("kafka_dlt-key-exception-message", b"no key"),
)
SMALLRYE: Headers = (
    ("dead-letter-exception-class-name", b"java.lang.RuntimeException"),
    ("dead-letter-reason", b"cannot book"),
    ("dead-letter-cause-class-name", b"java.net.ConnectException"),
    ("dead-letter-cause", b"refused"),
    ("dead-letter-topic", b"movies"),
    ("dead-letter-partition", b"0"),
    ("dead-letter-offset", b"6"),
    # A letter that failed again: what was there comes after what was written now.
    ("dead-letter-reason", b"an older one"),
)
KARAFKA: Headers = (
    ("source_topic", b"orders"),
    ("source_partition", b"1"),
    ("source_offset", b"88"),
    ("source_consumer_group", b"app_orders"),
    ("source_key", b"card-9"),
    ("source_attempts", b"3"),
    ("source_trace_id", b"5d1f"),
)


@pytest.mark.parametrize(
    ("given", "dialect", "failure"),
    [
        (
            CONNECT,
            Dialect.CONNECT,
            Failure(
                original=Original("orders", 0, 3_000_000_000),
                reason="DataException",
                stage="VALUE_CONVERTER",
                exception_class="org.apache.kafka.connect.errors.DataException",
                exception_message="Converting byte[] failed",
                stack="org.apache...\n\tat a.B(C.java:1)",
                group="jdbc-sink",
            ),
        ),
        (
            STREAMS,
            Dialect.STREAMS,
            Failure(
                original=Original("clicks", 12, 9),
                reason="IllegalStateException",
                exception_class="java.lang.IllegalStateException",
                exception_message="no: such state",
                stack="java.lang...\n\tat a.B(C.java:1)",
            ),
        ),
        (
            SHARE,
            Dialect.SHARE,
            Failure(
                original=Original("jobs", 2, 41),
                reason="SHARE_GROUP",
                exception_message="Offset rejected by client.",
                attempts=5,
                group="share-1",
            ),
        ),
        (
            SPRING,
            Dialect.SPRING,
            Failure(
                original=Original("orders", 2, 3_000_000_000, SENT_AT),
                reason="IllegalArgumentException",
                exception_class="java.lang.IllegalArgumentException",
                exception_message="Listener failed; amount",
                stack="org.springframework...",
                group="billing",
            ),
        ),
        (
            SPRING_RETRY,
            Dialect.SPRING,
            Failure(
                original=Original("orders", 1, 17, SENT_AT),
                reason="IOException",
                exception_class="java.io.IOException",
                exception_message="broken pipe",
                attempts=4,
            ),
        ),
        (
            SPRING_KEY,
            Dialect.SPRING,
            Failure(
                original=Original("orders"),
                reason="SerializationException",
                exception_class="org.apache.kafka.common.errors.SerializationException",
                exception_message="no key",
            ),
        ),
        (
            SMALLRYE,
            Dialect.SMALLRYE,
            Failure(
                original=Original("movies", 0, 6),
                reason="RuntimeException",
                exception_class="java.lang.RuntimeException",
                exception_message="cannot book; caused by refused",
            ),
        ),
        (
            KARAFKA,
            Dialect.KARAFKA,
            Failure(
                original=Original("orders", 1, 88, key="card-9"),
                reason="KARAFKA",
                attempts=3,
                group="app_orders",
            ),
        ),
        ((("trace", b"x"),), Dialect.NONE, Failure()),
    ],
    ids=lambda given: given.value if isinstance(given, Dialect) else "",
)
def test_the_letters_of_others_are_understood(
    given: Headers, dialect: Dialect, failure: Failure
) -> None:
    found = letter_of(record(given, topic="theirs"))
    assert found.dialect is dialect
    assert found.failure == failure


@pytest.mark.parametrize("given", [CONNECT, STREAMS, SHARE, SPRING, SMALLRYE, KARAFKA])
def test_what_failed_here_is_ours_whoever_failed_it_before(given: Headers) -> None:
    found = letter_of(record((*given, *headers())))
    assert found.dialect is Dialect.ONCEWARD
    assert found.key == b"card-1"


def test_karafka_keeps_the_key_in_a_header_and_writes_another_into_the_letter() -> None:
    old = tuple((name.replace("source", "original"), value) for name, value in KARAFKA)
    for given in (KARAFKA, old):
        assert letter_of(record(given, key=b"1")).key == b"card-9"
    without = tuple((name, b"" if name == "source_key" else value) for name, value in KARAFKA)
    assert letter_of(record(without, key=b"1")).key is None


def test_the_first_word_on_where_it_was_and_the_last_on_why_it_failed_count() -> None:
    given = (*headers(), *headers(ORIGINAL_TOPIC="payments.g.dlq", DLQ_REASON="TIMEOUT"))
    found = letter_of(record(given)).failure
    assert (found.original.topic, found.reason) == ("payments", "TIMEOUT")


def test_a_letter_is_named_by_its_request_else_by_its_origin_else_by_itself() -> None:
    assert letter("sent.dlq.1", DLQ_REQUEST_ID="failed").request_id == "failed"
    assert letter("b").request_id == "b"
    assert letter("not one id").request_id == "payments-3-41-1700000000000"
    assert letter_of(record(SPRING)).request_id == f"orders-2-3000000000-{SENT_AT}"
    assert letter_of(record(CONNECT)).request_id == f"payments.g.dlq-3-7-{FAILED_AT + 20}"


@pytest.mark.parametrize("number", [b"", b"-1", b"x", b"1" * 20, b"\xd9\xa3", b"9" * 19])
def test_a_number_that_is_none_or_too_large_is_not_taken(number: bytes) -> None:
    changed = tuple(
        (name, number if name in ("DLQ_ATTEMPTS", "ORIGINAL_OFFSET") else value)
        for name, value in headers()
    )
    failure = letter_of(record(changed)).failure
    assert (failure.attempts, failure.original.offset) == (None, None)


def test_a_binary_number_of_another_length_or_below_zero_is_not_taken() -> None:
    given = (
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", b"\x00\x02\x03"),
        ("kafka_dlt-original-offset", b"\xff" * 8),
        ("retry_topic-attempts", b"\x03"),
    )
    failure = letter_of(record(given)).failure
    assert failure.original == Original("orders")
    assert failure.attempts == 3


def test_text_that_is_not_utf_8_is_replaced_and_a_null_header_says_nothing() -> None:
    changed = (*headers(), ("DLQ_EXCEPTION_MESSAGE", b"caf\xe9"), ("DLQ_STAGE", b""))
    failure = letter_of(record(changed)).failure
    assert (failure.exception_message, failure.stage) == ("caf�", None)


@pytest.mark.parametrize("raw", [b"\x02", b"\x00\x02", bytes(7) + b"\x02"])
def test_a_binary_partition_of_another_length_than_4_is_not_believed(raw: bytes) -> None:
    headers = [
        (name, raw if name.endswith("original-partition") else value) for name, value in SPRING
    ]
    assert letter_of(record(tuple(headers))).failure.original.partition is None
