"""Sends reopened requests: writes their statuses to Redis, then their records to Kafka.

A redrive does not need Redis. When Redis is away, it is left alone for a while. The workers' sweep
writes the missed statuses; a run writes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import NamedTuple, cast

from consumer.dlq.letter import Letter
from consumer.dlq.redrive.record import RedriveRecord
from consumer.features.outgoing.record_writer import RecordWriter
from consumer.journal.records import Published, Row
from consumer.status import status_messages
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable, RedisRefused, RedisUnavailable, SettingsError
from feedback.redis.server import connect, guarded
from feedback.redis.split_batch import batches, write_apart
from feedback.redis.store import StatusStore
from feedback.rights.looking import require_redis_rights
from feedback.rights.needed import Role
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import Refused, StatusWrite

REST_S = 5.0
# PENDING may follow a FAILED status with `resend` set (docs: Statuses).
_REOPEN = f"""
local attempts = {{}}
for i, key in ipairs(KEYS) do
  local at = redis.pcall('HMGET', key, 'status', 'generation', 'payload_sha256', 'attempt')
  if at[1] == '{State.FAILED}' and at[2] == ARGV[2 * i - 1] and at[3] == ARGV[2 * i] then
    redis.call('HSET', key, 'resend', '1')
  end
  attempts[i] = at[4] or '0'
end
return attempts
"""


class RedriveStatuses:
    """Writes statuses, while Redis answers. One thread at a time may use it.

    Args:
        resend_after_s: when the resender first looks at the requests that were sent back.

    Attributes:
        missed: how many could not be written.
        refusal: the last fault of security for that, in a sentence; empty where there was none.
    """

    def __init__(self, store: StatusStore, *, resend_after_s: float) -> None:
        self._store = store
        self._look_after_ms = int(resend_after_s * 1000)
        self._rests_until_s = 0.0
        self.missed = 0
        self.refusal = ""

    def require_same_journal(self, journal_id: str) -> None:
        """Return unless the group's workers have another journal than this one.

        Raises:
            SettingsError: they have, so nothing could be judged rightly here.
            RedisUnavailable: by a fault of security, which a person has to mend.
        """
        try:
            with guarded():
                stands = cast("bytes | None", self._store.redis.get(self._store.journal_key))
        except RedisUnavailable as error:
            if error.fault is not None:
                raise
            self._rest(error, 0)
            return
        if stands is not None and stands.decode("utf-8", "replace") != journal_id:
            raise SettingsError(
                "[journal] url names another journal than the group's workers have: correct it"
            )

    def reopened(self, names: Sequence[str], rows: Sequence[Row | None]) -> list[int]:
        """Allow a resend of these; return the latest attempt of each, 0 where Redis has none.

        Args:
            rows: of these requests; None for one that has no row, or is replaced.
        """
        unknown = [0] * len(names)
        if not names or self._rests:
            return unknown
        keys = [self._store.request_key(one) for one in names]
        facts: list[str | int] = []
        for row in rows:
            facts += ("", "") if row is None else (row.generation, row.payload_sha256)
        try:
            with guarded():
                told = self._store.redis.eval(_REOPEN, len(keys), *keys, *facts)
        except RedisUnavailable as error:
            self._rest(error, 0)
            return unknown
        return [int(one) if one.isdigit() else 0 for one in cast("list[bytes]", told)]

    def sent_back(self, sendings: Sequence[RedriveRecord]) -> list[Published]:
        """Write PENDING for these before they are sent; return the rows whose status Redis has."""
        answers = self._write([_pending(one) for one in sendings])
        # A status that Redis refused is corrected by a sweep, from the journal.
        return [
            Published(one.reopened.request_id, one.reopened.generation, one.reopened.state)
            for one, answer in zip(sendings, answers, strict=False)
            if answer is None and one.reopened is not None
        ]

    def failed(self, rows: Sequence[Row], attempts: Sequence[int]) -> None:
        """Write FAILED again for these.

        Args:
            attempts: those that PENDING was written with.
        """
        pairs = zip(rows, attempts, strict=True)
        self._write([status_messages.from_row(row, attempt=one) for row, one in pairs])

    def forget(self, one: RedriveRecord) -> None:
        """Remove the status of a new request that was certainly not sent."""
        try:
            self._store.forget(
                one.request_id,
                attempt=one.attempt,
                payload_sha256=one.payload_sha256,
                deadline_at=one.deadline_at,
            )
        except RedisUnavailable as error:
            self._rest(error, 1)

    def row(self, row: Row) -> bool:
        """Write the status of a request; say whether its client can see it."""
        answers = self._write([status_messages.from_row(row, restore=True)])
        return bool(answers) and not isinstance(answers[0], RedisRefused)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    @property
    def _rests(self) -> bool:
        return monotonic_s() < self._rests_until_s

    def _write(self, writes: Sequence[StatusWrite]) -> list[Refused | RedisRefused | None]:
        """Return Redis's answer to each write; nothing where it is away."""
        answers: list[Refused | RedisRefused | None] = []
        if self._rests:
            self.missed += len(writes)
            return []
        look_at = epoch_ms() + self._look_after_ms
        try:
            for batch in batches(writes, most=1000):
                answers += write_apart(self._store, batch, look_at=look_at)
        except RedisUnavailable as error:
            self._rest(error, len(writes))
            return []
        self.missed += sum(isinstance(one, RedisRefused) for one in answers)
        return answers

    def _rest(self, error: RedisUnavailable, requests: int) -> None:
        if error.fault is not None:
            self.refusal = str(error)
        self._rests_until_s = monotonic_s() + REST_S
        self.missed += requests


def _pending(one: RedriveRecord) -> StatusWrite:
    return StatusWrite(
        request_id=one.request_id,
        state=State.PENDING,
        attempt=one.attempt,
        generation=0,
        payload_sha256=one.payload_sha256,
        fields={
            "deadline_at": str(one.deadline_at),
            "topic": one.payload.topic,
            # A person has it run once more: the first record of the request says no more of it.
            "first": "",
        },
        payload=one.payload,
    )


@contextmanager
def opened_statuses(settings: Settings, journal_id: str) -> Iterator[RedriveStatuses]:
    """Yield the status writer of the settings; close it afterwards.

    Raises:
        SettingsError: the group's workers have another journal.
        NotAvailable: this user lacks a right of an operator; names the command that grants it.
    """
    require_redis_rights(Role.OPERATOR, settings)
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    with closing(RedriveStatuses(store, resend_after_s=settings.client.resend_after_s)) as statuses:
        statuses.require_same_journal(journal_id)
        yield statuses


class ReadyLetter(NamedTuple):
    """A letter that may be sent back, with its new value where `--set` asked for one."""

    letter: Letter
    value: bytes | None


class ReopenedLetter(NamedTuple):
    """A letter to send, with its reopened row; None where it has no row."""

    ready: ReadyLetter
    row: Row | None


class SentBatch(NamedTuple):
    """The results of a batch.

    Args:
        errors: None for each record that Kafka has.
        published: reopened rows whose status Redis has.
    """

    sendings: list[RedriveRecord]
    errors: list[KafkaUnavailable | None]
    published: list[Published]


class BatchSender:
    """Writes the statuses and the records of requests, one batch after the other.

    Args:
        record: makes the record of a letter, from the latest attempt that Redis has.
        replaces: whether new requests replace those that failed.
    """

    def __init__(
        self,
        statuses: RedriveStatuses,
        writer: RecordWriter,
        *,
        record: Callable[[ReopenedLetter, int], RedriveRecord],
        replaces: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._statuses = statuses
        self._writer = writer
        self._record = record
        self._replaces = replaces
        self._pool = pool

    def start(self, batch: Sequence[ReopenedLetter]) -> Future[SentBatch]:
        """Begin with a batch."""
        return self._pool.submit(self._send, batch)

    def _send(self, batch: Sequence[ReopenedLetter]) -> SentBatch:
        attempts = self._statuses.reopened(
            [one.ready.letter.request_id for one in batch],
            [None if self._replaces else one.row for one in batch],
        )
        sendings = [self._record(*one) for one in zip(batch, attempts, strict=True)]
        published = self._statuses.sent_back(sendings)
        errors = self._writer.write([one.outgoing for one in sendings])
        return SentBatch(sendings, errors, published)
