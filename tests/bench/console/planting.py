"""A group with many requests and many dead letters, as its workers would have left them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, text

from feedback.clock import epoch_ms
from feedback.records import failure_headers
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import ATTEMPT, REQUEST_ID

TOPICS = 5
PARTITIONS = 4
# One request in ten has failed, and one in a thousand is in doubt.
FAILED_EACH = 10
FAILED_AT = 1
DOUBT_EACH = 1000
IN_FLIGHT = 20_000

_ROWS = text(f"""
INSERT INTO onceward_request (
    "group", request_id, topic, partition, "offset", message_key, payload_sha256, attempt,
    generation, effect_kind, effect_at, deadline_at, state, owner, claimed_at, finished_at, code,
    message, resend, published_at, dead_letter_at
)
SELECT
    :group, lpad(to_hex(i), 12, '0') || '-' || md5(i::text), 'topic-' || mod(i, {TOPICS}),
    mod(i, {PARTITIONS}), i, convert_to('card-' || mod(i, 1000), 'UTF8'), md5('x'), 1,
    1, 'external', :begin + i, :begin + :rows + i,
    CASE WHEN mod(i, {DOUBT_EACH}) = 0 THEN 'IN_DOUBT'
         WHEN mod(i, {FAILED_EACH}) = {FAILED_AT} THEN 'FAILED' ELSE 'SUCCEEDED' END,
    'worker-1', :begin + i, :begin + i,
    CASE WHEN mod(i, {FAILED_EACH}) = {FAILED_AT} THEN 'BANK' END,
    'the account is closed', 0, :begin + :rows, :begin + :rows
FROM generate_series(1, :rows) i
""")


@dataclass(frozen=True, slots=True)
class Planted:
    """What a group has.

    Attributes:
        topic: the one whose failures have letters.
    """

    group: str
    rows: int
    letters: int
    topic: str = f"topic-{FAILED_AT}"

    def request_id(self, number: int) -> str:
        """Return the id of a request; the first is 1."""
        return f"{number:012x}-{hashlib.md5(str(number).encode()).hexdigest()}"

    def failed(self, number: int) -> str:
        """Return the id of a request that has a letter; the first is 0."""
        return self.request_id(FAILED_AT + FAILED_EACH * number)


def plant(database_url: str, bootstrap_servers: str, planted: Planted) -> None:
    """Write the rows and the letters.

    Args:
        database_url: PostgreSQL with the journal's tables.
    """
    rows = {"group": planted.group, "rows": planted.rows, "begin": epoch_ms() - planted.rows}
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(_ROWS, rows)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE onceward_request"))
    letters = dead_letter_topic(planted.topic, planted.group)
    topics = [f"topic-{number}" for number in range(TOPICS)]
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (*topics, letters)])
        admin.wait_for_topics([*topics, letters])
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        sent = []
        for number in range(planted.letters):
            sent.append(
                producer.send(
                    letters,
                    value=b'{"amount": 5}',
                    key=b"card-%d" % (number % 1000),
                    partition=number % PARTITIONS,
                    headers=[
                        (REQUEST_ID, planted.failed(number).encode()),
                        (ATTEMPT, b"1"),
                        (failure_headers.ORIGINAL_TOPIC, planted.topic.encode()),
                        (failure_headers.DLQ_REASON, b"BANK"),
                        (failure_headers.DLQ_CONSUMER_GROUP, planted.group.encode()),
                    ],
                )
            )
            if len(sent) == IN_FLIGHT:
                _acknowledged(sent)
        _acknowledged(sent)


def _acknowledged(sent: list[object]) -> None:
    for future in sent:
        future.get(timeout=60)  # type: ignore[attr-defined]
    sent.clear()
