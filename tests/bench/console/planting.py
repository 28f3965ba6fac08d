"""A group with many requests and many dead letters, as its workers would have left them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, text

from feedback.clock import epoch_ms
from feedback.records import failure_headers
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import ATTEMPT, REQUEST_ID

PARTITIONS = 4
TOPICS = tuple(f"topic-{number}" for number in range(5))
KEYS = 1000
VALUE = b'{"amount": 5}'
MESSAGE = "the bank did not answer"
# One request in ten has failed, and one in a thousand is in doubt.
FAILED_EACH = 10
FAILED_AT = 1
DOUBT_EACH = 1000
# Between two letters.
LETTER_EACH_MS = 20_000
IN_FLIGHT = 20_000

# The hash of a payload as the documentation has it: The guarantee.
_ROWS = text(f"""
INSERT INTO onceward_request (
    "group", request_id, topic, partition, "offset", message_key, payload_sha256, attempt,
    generation, effect_kind, effect_at, deadline_at, state, owner, claimed_at, finished_at, code,
    message, resend, published_at, dead_letter_at
)
SELECT
    :group, lpad(to_hex(i), 12, '0') || '-' || md5(i::text),
    (CAST(:topics AS TEXT[]))[1 + mod(i, :topic_count)], mod(i, {PARTITIONS}), i, key,
    encode(sha256(
        int8send(octet_length(key)) || key || int8send(octet_length(value)) || value
    ), 'hex'), 1,
    1, 'external', :begin + i, :begin + :rows + i,
    CASE WHEN mod(i, {DOUBT_EACH}) = 0 THEN 'IN_DOUBT'
         WHEN mod(i, {FAILED_EACH}) = {FAILED_AT} THEN 'FAILED' ELSE 'SUCCEEDED' END,
    'worker-1', :begin + i, :begin + i,
    CASE WHEN mod(i, {FAILED_EACH}) = {FAILED_AT} THEN 'BANK' END,
    '{MESSAGE}', 0, :begin + :rows, :begin + :rows
FROM
    generate_series(1, :rows) i,
    convert_to('card-' || mod(i, {KEYS}), 'UTF8') key,
    convert_to(:value, 'UTF8') value
""")


@dataclass(frozen=True, slots=True)
class Planted:
    """What a group has.

    Attributes:
        topics: as many as divide `FAILED_EACH`, so that failures are of one of them.
    """

    group: str
    rows: int
    letters: int
    topics: tuple[str, ...] = TOPICS

    @property
    def topic(self) -> str:
        """The topic whose requests have failed."""
        return self.topics[FAILED_AT]

    def request_id(self, number: int) -> str:
        """Return the id of a request; the first is 1."""
        return f"{number:012x}-{hashlib.md5(str(number).encode()).hexdigest()}"

    def failed(self, letter: int) -> str:
        """Return the id of a request that has a letter; the first is 0."""
        return self.request_id(FAILED_AT + FAILED_EACH * letter)


def plant(database_url: str, bootstrap_servers: str, planted: Planted) -> None:
    """Write the rows and the letters.

    Args:
        database_url: PostgreSQL with the journal's tables.
    """
    given: dict[str, object] = {
        "group": planted.group,
        "rows": planted.rows,
        "begin": epoch_ms() - planted.rows,
        "topics": [*planted.topics],
        "topic_count": len(planted.topics),
        "value": VALUE.decode(),
    }
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(_ROWS, given)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE onceward_request"))
    letters = dead_letter_topic(planted.topic, planted.group)
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        names = [*planted.topics, letters]
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        admin.wait_for_topics(names)
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        sent: list[Any] = []
        for number in range(planted.letters):
            sent.append(producer.send(letters, **_letter(planted, number)))
            if len(sent) == IN_FLIGHT:
                _acknowledged(sent)
        _acknowledged(sent)


def _letter(planted: Planted, number: int) -> dict[str, Any]:
    headers = {
        REQUEST_ID: planted.failed(number),
        ATTEMPT: "1",
        failure_headers.ORIGINAL_TOPIC: planted.topic,
        failure_headers.DLQ_REASON: "BANK",
        failure_headers.DLQ_EXCEPTION_CLASS: "BankDown",
        failure_headers.DLQ_EXCEPTION_MESSAGE: MESSAGE,
        failure_headers.DLQ_FAILED_AT: str(epoch_ms() - LETTER_EACH_MS * number),
        failure_headers.DLQ_CONSUMER_GROUP: planted.group,
    }
    return {
        "value": VALUE,
        "key": b"card-%d" % ((FAILED_AT + FAILED_EACH * number) % KEYS),
        "partition": number % PARTITIONS,
        "headers": [(name, value.encode()) for name, value in headers.items()],
    }


def _acknowledged(sent: list[Any]) -> None:
    for future in sent:
        future.get(timeout=60)
    sent.clear()
