"""Sends reopened requests: writes PENDING to Redis, then their records to Kafka.

One batch at a time in a thread of its own, so that the journal reopens the next one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

from consumer.dlq.letter import DeadLetter
from consumer.dlq.redrive_record import Sending
from consumer.dlq.redrive_telling import Tellings
from consumer.journal.records import Published, Row
from feedback.errors import KafkaUnavailable
from feedback.kafka.writer import Outgoing


class Writer(Protocol):
    """Writes records to Kafka; returns None for each that is acknowledged."""

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]: ...


class Ready(NamedTuple):
    """A letter that may be sent back, with its new value where `--set` asked for one."""

    letter: DeadLetter
    value: bytes | None


class Reopened(NamedTuple):
    """A letter to send, with its reopened row; None where it has no row."""

    ready: Ready
    row: Row | None


class Carried(NamedTuple):
    """The results of a batch.

    Args:
        errors: None for each record that Kafka has.
        published: reopened rows whose status Redis has.
    """

    sendings: list[Sending]
    errors: list[KafkaUnavailable | None]
    published: list[Published]


class Carrying:
    """Writes the statuses and the records of requests, one batch after the other.

    Args:
        record: makes the record of a letter, from the latest attempt that Redis has.
        replaces: whether new requests replace those that failed.
        pool: has one thread.
    """

    def __init__(
        self,
        tellings: Tellings,
        writer: Writer,
        *,
        record: Callable[[Reopened, int], Sending],
        replaces: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._tellings = tellings
        self._writer = writer
        self._record = record
        self._replaces = replaces
        self._pool = pool

    def start(self, batch: Sequence[Reopened]) -> Future[Carried]:
        """Begin with a batch."""
        return self._pool.submit(self._carry, batch)

    def _carry(self, batch: Sequence[Reopened]) -> Carried:
        attempts = self._tellings.reopened(
            [one.ready.letter.request_id for one in batch],
            [None if self._replaces else one.row for one in batch],
        )
        sendings = [self._record(*one) for one in zip(batch, attempts, strict=True)]
        published = self._tellings.sent_back(sendings)
        errors = self._writer.write([one.outgoing for one in sendings])
        return Carried(sendings, errors, published)
