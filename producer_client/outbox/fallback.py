"""Kafka first; what Kafka or Redis fails to take goes into the outbox, unknown to its caller.

A send is then three steps, each with its share of `send_timeout_s`: PENDING, Kafka, the row. While
one of them is known to be away it is not asked, but by one caller at a time.

If the process dies after the first, the request is PENDING with its payload kept, and the resender
sends it; after the second, Kafka has it or may have it; after the third, a relay sends it. What two
of them send is one request, since it has one id.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from sqlalchemy import QueuePool
from sqlalchemy.exc import DBAPIError

from feedback.clock import monotonic_s
from feedback.envelope import Envelope
from feedback.errors import NotAvailable, NotSent, OncewardError, SendUnknown
from feedback.kept import KeptPayload
from feedback.logs import EventLog
from feedback.settings import Settings
from feedback.sql.engine import open_engine
from feedback.statuses import Refused
from producer_client.kafka_sender import (
    CLOSED,
    OutOfTime,
    RecordNotSent,
    SenderClosed,
    TopicAway,
    TopicUnknown,
)
from producer_client.outbox import writing
from producer_client.outbox.circuit import Circuit
from producer_client.outbox.errors import OutboxForbidden, OutboxUnavailable
from producer_client.outbox.faults import translate
from producer_client.submission import Prepared
from producer_client.way import Way, ending_of
from producer_client.worlds import OnItsWay

log = EventLog("onceward.client")

Kind = TypeVar("Kind", bound=Prepared)

# Of `send_timeout_s`: Redis may be asked twice, then Kafka, then the database.
REDIS_SHARE, KAFKA_SHARE, ROW_SHARE = 0.15, 0.5, 0.2
THREADS = 4
_REDIS = "redis"
_PROBE = Prepared(Envelope("probe", 1, 0), KeptPayload("probe", b"", b""), "", named_by_caller=True)
_AWAY = "Kafka did not take {} a moment ago"


@dataclass(frozen=True, slots=True)
class Untold(Prepared):
    """A request that Redis was not told of: it must not go to Kafka."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Allowed(Prepared):
    """A request that goes to Kafka: it was asked before anything was told."""


class Diverted(TopicAway):
    """It was not tried: who would have to take it is known to be away."""


class Fallback:
    """The outbox of one client, and who was away.

    Args:
        url: the outbox' database; it may be away now.
        settings: checked settings.

    Raises:
        SettingsError: the URL is malformed.
        OutboxVersionError: the database has no outbox, or one of another version.
        OutboxForbidden: its user may not write there.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._group = settings.kafka.group
        self._notify = settings.outbox.notify
        self._max_request_bytes = settings.client.max_request_bytes
        self._row_s = settings.client.send_timeout_s * ROW_SHARE
        self.circuit = Circuit()
        pool = {"poolclass": QueuePool, "pool_size": THREADS, "max_overflow": 0}
        self._engine = open_engine(url, timeout_s=self._row_s, pool=pool, what="outbox")
        # In threads of their own: a database that hangs must not hold up a caller for longer.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onceward-outbox")
        self._lock = threading.Lock()
        self._is_closed = False
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def way(self, *given: Any, **named: Any) -> FallbackWay:
        """Return a way that falls back on this outbox; see `Way` for the arguments."""
        return FallbackWay(*given, fallback=self, **named)

    def close(self) -> None:
        """Write what is being written, take nothing more, and close the connections."""
        with self._lock:
            self._is_closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    def take(self, one: Prepared, error: NotSent | SendUnknown) -> NotSent | SendUnknown | None:
        """Write the row; None when it is committed, else the first error with both reasons. Once
        it is closed nothing is written."""
        if writing.is_too_large(one, max_request_bytes=self._max_request_bytes):
            reason = f"the record is larger than {self._max_request_bytes} bytes"
            return type(error)(one.request_id, reason)
        attempt = _Attempt()
        with self._lock:
            if self._is_closed:
                return _closed(one, error)
            written = self._threads.submit(self._write, one, attempt)
        try:
            written.result(self._row_s)
            return None
        except CancelledError:
            return _closed(one, error)
        except NotInTime:
            why = "the outbox did not answer in time"
            is_certain = written.cancel() or attempt.give_up()
        except _Uncommitted as fault:
            why, is_certain = str(fault), False
        except OncewardError as fault:
            why, is_certain = str(fault), True
        log.warning("outbox.away", reason=why)
        kind = type(error) if is_certain else SendUnknown
        return kind(one.request_id, f"{error.reason}; and {why}")

    def _write(self, one: Prepared, attempt: _Attempt) -> None:
        try:
            with self._engine.connect() as connection:
                if self._engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                writing.write(connection, one, group=self._group, notify=self._notify)
                if not attempt.may_commit():
                    return
                try:
                    connection.commit()
                except DBAPIError as error:
                    # Whatever it says: a pooler answers in the name of a server that has died.
                    raise _Uncommitted(str(translate(error) or type(error).__name__)) from None
        except DBAPIError as error:
            raise translate(error) or error from None

    def _check(self) -> None:
        """Have a wrong database, or a user without rights, be found now and not in an outage; one
        that is away is found out later."""
        attempt = _Attempt()
        attempt.give_up()  # so it is rolled back
        checked = self._threads.submit(self._write, _PROBE, attempt)
        try:
            checked.result(2 * self._row_s)
        except OutboxForbidden:
            raise
        except (NotInTime, OutboxUnavailable) as error:
            log.warning("outbox.away", reason=str(error) or "it does not answer")


class FallbackWay(Way):
    """Sends as `Way` does, and writes to the outbox what an outage stops; for calls that block."""

    def __init__(self, *given: Any, fallback: Fallback, **named: Any) -> None:
        super().__init__(*given, **named)
        self._fallback = fallback
        self._circuit = fallback.circuit

    async def announce(self, batch: Sequence[Prepared]) -> list[Prepared | OncewardError | None]:
        """Tell PENDING for each; see `Way.announce`. Redis away is no error."""
        if not self._circuit.allows(_REDIS, monotonic_s()):
            return [_untold(one, "Redis was away a moment ago") for one in batch]
        try:
            told = await super().announce(batch)
        except (NotSent, SendUnknown) as error:
            if self._circuit.failed(_REDIS, monotonic_s()):
                log.warning("redis.away", reason=error.reason)
            # Redis that did not answer may have heard of them.
            may_be_told = isinstance(error, SendUnknown)
            asked = [replace(one, is_told=may_be_told) for one in batch]
            return [_untold(one, error.reason) for one in asked]
        if self._circuit.worked(_REDIS):
            log.info("redis.back")
        return told

    async def again_many(
        self,
        batch: Sequence[Prepared],
        *,
        keep_payloads: bool,
        until_s: float | None = None,
    ) -> list[OncewardError | Refused | None]:
        """Send requests again; see `Way.again_many`. While Kafka is known to be away nothing is
        told: a PENDING of an attempt that nobody sends would hide the one that a worker has."""
        told: list[OncewardError | Refused | None] = []
        for one in batch:
            may = self._circuit.allows(_topic(one), monotonic_s())
            away = NotSent(one.request_id, _AWAY.format(one.payload.topic))
            told.append(None if may else away)
        places = [at for at, error in enumerate(told) if error is None]
        if places:
            tried = [_like(Allowed, batch[at]) for at in places]
            sent = await super().again_many(tried, keep_payloads=keep_payloads, until_s=until_s)
            for at, ending in zip(places, sent, strict=True):
                told[at] = ending
                if ending is None:
                    self._noted_back(batch[at])
                elif isinstance(ending, NotSent | SendUnknown) and _is_outage(ending):
                    self._noted_away(batch[at], ending)
        return told

    def _hand_over_one(self, one: Prepared, until_s: float | None) -> OnItsWay | RecordNotSent:
        if isinstance(one, Untold):
            return Diverted(one.reason)
        is_allowed = isinstance(one, Allowed)
        if not (is_allowed or self._circuit.allows(_topic(one), monotonic_s())):
            return Diverted(_AWAY.format(one.payload.topic))
        return super()._hand_over_one(one, until_s)

    async def outcome(
        self, one: Prepared, record: OnItsWay | RecordNotSent
    ) -> NotSent | SendUnknown | None:
        """Return None when Kafka or the outbox has it, else what became of it."""
        error = await ending_of(one, record)
        if error is None:
            self._noted_back(one)
            return None
        if not _is_outage(error):
            return await self.withdraw(one, error)
        if not isinstance(record, Diverted):
            self._noted_away(one, error)
        return await self.withdraw(one, self._fallback.take(one, error))

    def _noted_back(self, one: Prepared) -> None:
        if self._circuit.worked(_topic(one)):
            log.info("topic.back", topic=one.payload.topic)

    def _noted_away(self, one: Prepared, error: NotSent | SendUnknown) -> None:
        if isinstance(error.__cause__, OutOfTime):
            return  # nobody asked Kafka
        if self._circuit.failed(_topic(one), monotonic_s()):
            log.warning("topic.away", topic=one.payload.topic, reason=error.reason)


class _Attempt:
    """One row on its way: either its caller gives it up, or it goes on to its commit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = self._commits = False

    def give_up(self) -> bool:
        """Whether it will never be committed."""
        with self._lock:
            self._is_over = not self._commits
            return self._is_over

    def may_commit(self) -> bool:
        """Whether its caller still waits."""
        with self._lock:
            self._commits = not self._is_over
            return self._commits


class _Uncommitted(NotAvailable):
    """Nobody knows whether the row is there."""


def _topic(one: Prepared) -> str:
    return f"topic {one.payload.topic}"


def _closed(one: Prepared, error: NotSent | SendUnknown) -> NotSent | SendUnknown:
    return type(error)(one.request_id, f"{error.reason}; and {CLOSED}")


def _is_outage(error: NotSent | SendUnknown) -> bool:
    cause = error.__cause__
    if isinstance(error, SendUnknown):
        return True
    return isinstance(cause, TopicAway) and not isinstance(cause, TopicUnknown | SenderClosed)


def _untold(one: Prepared, reason: str) -> Untold:
    return _like(Untold, one, reason=reason)


def _like(kind: type[Kind], one: Prepared, **more: Any) -> Kind:
    return kind(**{name.name: getattr(one, name.name) for name in fields(Prepared)}, **more)
