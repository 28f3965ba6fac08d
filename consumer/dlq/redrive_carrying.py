"""Brings reopened requests on their way: tells their clients and writes their records.

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
    """Writes records; None for each that Kafka has acknowledged."""

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]: ...


class Ready(NamedTuple):
    """A letter that may be sent back, with its value set anew where that was asked for."""

    letter: DeadLetter
    value: bytes | None


class Reopened(NamedTuple):
    """A letter that is to be sent, and its request as it stands; None where it has no row."""

    ready: Ready
    row: Row | None


class Carried(NamedTuple):
    """The results of a batch.

    Args:
        errors: None for each that Kafka has.
        published: reopened rows that Redis was told of.
    """

    sendings: list[Sending]
    errors: list[KafkaUnavailable | None]
    published: list[Published]


class Carrying:
    """Tells of requests and writes their records, one batch after the other.

    Args:
        record: makes the record of a letter, given the latest attempt that a client heard of.
        replaces: whether new requests take the place of those that failed.
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
