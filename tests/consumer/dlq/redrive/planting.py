"""Dead letters and their rows in great numbers, as if a worker had failed all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, insert

from consumer.features.dead_letters.letter import letter_headers
from consumer.journal.records import Row
from consumer.journal.tables import request
from consumer.journal.waiting import OwedRow
from feedback.clock import epoch_ms
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import Envelope, Headers, Record, encode_headers, payload_sha256

PAGE = 5000
GONE_MS = 600_000


def plant(
    *,
    kafka: str,
    journal_url: str,
    group: str,
    topic: str,
    letters: int,
    partitions: int = 4,
    value_bytes: int = 1024,
    headers: Headers = (),
    begin: int = 0,
    apart_ms: int = 0,
) -> None:
    """Make a topic, its letters and their FAILED rows; their deadlines are long over.

    Args:
        headers: of the producer's.
        apart_ms: between two failures; the first letter's is the latest.
        begin: the number of the first letter; the topic is there already where that is not 0.
    """
    box = dead_letter_topic(topic, group)
    if not begin:
        with KafkaAdminClient(bootstrap_servers=kafka) as admin:
            admin.create_topics([NewTopic(name, partitions, 1) for name in (topic, box)])
            admin.wait_for_topics([topic, box])
    producer = KafkaProducer(bootstrap_servers=kafka, linger_ms=5, batch_size=262_144)
    engine = create_engine(journal_url, poolclass=NullPool)
    numbers = range(begin, begin + letters)
    made = _made(
        topic,
        numbers,
        partitions=partitions,
        value_bytes=value_bytes,
        own=headers,
        apart_ms=apart_ms,
    )
    while page := list(islice(made, PAGE)):
        for dead, record in page:
            written = letter_headers(dead, record, group=group, raised=None)
            producer.send(
                box,
                key=record.key,
                value=record.value,
                headers=list(written),
                partition=record.partition,
            )
        with engine.begin() as connection:
            rows = [{"group": group, **dead.row._asdict()} for dead, _ in page]
            connection.execute(insert(request), rows)
        producer.flush()
    producer.close()


def _made(
    topic: str,
    numbers: range,
    *,
    partitions: int,
    value_bytes: int,
    own: Headers,
    apart_ms: int = 0,
) -> Iterator[tuple[OwedRow, Record]]:
    latest = epoch_ms() - GONE_MS
    filling = "x" * value_bytes
    for number in numbers:
        failed_at = latest - number * apart_ms
        request_id = f"request-{number:08d}"
        value = json.dumps({"number": number, "filling": filling}).encode()
        key = b"%d" % number
        headers = (*own, *encode_headers(Envelope(request_id, 1, failed_at + 1)))
        place = topic, number % partitions, number // partitions
        record = Record(*place, failed_at, key, value, headers)
        yield OwedRow(_row(request_id, record, failed_at), failed_at), record


def _row(request_id: str, record: Record, failed_at: int) -> Row:
    return Row(
        request_id=request_id,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        message_key=record.key,
        payload_sha256=payload_sha256(record.key, record.value),
        attempt=1,
        generation=1,
        effect_kind="marked",
        effect_at=None,
        deadline_at=failed_at + 1,
        state="FAILED",
        owner="gone",
        claimed_at=failed_at - 5,
        due_at=None,
        finished_at=failed_at,
        code="BANK_CLOSED",
        message="the bank is closed",
        result=None,
        resend=False,
        by=None,
        published_at=failed_at,
        dead_letter_at=failed_at,
        voids=0,
    )


def row_of(request_id: str, topic: str) -> Row:
    """Return the row of a request whose letter was planted."""
    (found,) = (
        dead.row
        for dead, _ in _made(topic, range(100), partitions=4, value_bytes=1024, own=())
        if dead.row.request_id == request_id
    )
    return found
