"""Sends to Kafka first; a request that Kafka or Redis fails to take goes into the outbox.

The caller does not notice it.

A send is then three steps, each with its share of `send_timeout_s`: PENDING, Kafka, the row. While
a server is known to be away, only one caller at a time asks it.

If the process dies after the first step, the request is PENDING with its payload stored, and the
resender sends it. After the second, Kafka has it or may have it. After the third, a relay sends it.
If two of them send it, it is still one request, since it has one id.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from feedback.clock import monotonic_s
from feedback.errors import NotSent, OncewardError, SendUnknown
from feedback.kafka.send_errors import (
    OutOfTime,
    RecordNotSent,
    SenderClosed,
    TopicAway,
    TopicUnknown,
)
from feedback.kafka.sending import CLOSED
from feedback.logs import EventLog
from feedback.outages import log_outage
from feedback.records.envelope import Envelope
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import Settings
from feedback.statuses import Refused
from producer_client.outbox import writing
from producer_client.outbox.circuit import Circuit
from producer_client.outbox.errors import OutboxForbidden, OutboxUnavailable
from producer_client.outbox.row_writer import RowWriter, Uncommitted
from producer_client.sending.send_flow import SendFlow, ending_of
from producer_client.sending.send_rules import made_unknown
from producer_client.sending.sync_bridge import OnItsWay
from producer_client.submission import Prepared

log = EventLog("onceward.client")

KindT = TypeVar("KindT", bound=Prepared)

# Shares of `send_timeout_s`: Redis may be asked twice, then Kafka, then the database.
REDIS_SHARE, KAFKA_SHARE, ROW_SHARE = 0.15, 0.5, 0.2
_REDIS = "redis"
_PROBE = Prepared(
    Envelope("probe", 1, 0), StoredPayload("probe", b"", b""), "", named_by_caller=True
)
_WRITTEN_ELSEWHERE = "another process may have written it into the outbox"
_AWAY = "Kafka did not take {} a moment ago"


@dataclass(frozen=True, slots=True)
class Untold(Prepared):
    """A request whose PENDING was not written: it must not go to Kafka."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Allowed(Prepared):
    """A request that may go to Kafka: the circuit was asked before PENDING was written."""


class Diverted(TopicAway):
    """It was not tried: a server that it needs is known to be away."""


Known = Callable[[Future[Any], float], Awaitable[None]]


async def known_to_thread(written: Future[Any], limit_s: float) -> None:
    """Hold up the thread until a row's outcome is known, or out of time."""
    with suppress(CancelledError, NotInTime):
        written.exception(limit_s)


async def known_to_loop(written: Future[Any], limit_s: float) -> None:
    """Return when a row's outcome is known, or out of time; the loop goes on."""
    is_known = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(_: Future[Any]) -> None:
        # The loop is closed: nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(is_known.set)

    written.add_done_callback(tell)
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await is_known.wait()


class Fallback:
    """The outbox of one client, with the circuits of its servers.

    Args:
        url: the outbox' database; it may be away now.
        known: waits for a row's outcome.

    Raises:
        SettingsError: the URL is malformed.
        OutboxVersionError: the database has no outbox, or one of another version.
        OutboxForbidden: its user may not write there.
    """

    def __init__(self, url: str, settings: Settings, *, known: Known = known_to_thread) -> None:
        self._known = known
        # The ids of cancelled sends whose row may be written.
        self.in_doubt: set[str] = set()
        self._group = settings.kafka.group
        self._notify = settings.outbox.notify
        self._max_request_bytes = settings.client.max_request_bytes
        self._row_s = settings.client.send_timeout_s * ROW_SHARE
        self.circuit = Circuit()
        self._url = url
        self._lock = threading.Lock()
        self._is_closed = False
        self._writer = self._open()
        # A parent's connections: to drop them here would close them for the parent as well.
        self._inherited: RowWriter | None = None
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def way(self, *given: Any, **named: Any) -> FallbackFlow:
        """Return a flow that falls back on this outbox; see `SendFlow` for the arguments."""
        return FallbackFlow(*given, fallback=self, **named)

    def is_too_large(self, one: Prepared) -> bool:
        """Whether neither Kafka nor the outbox takes it, from any process."""
        return writing.is_too_large(one, max_request_bytes=self._max_request_bytes)

    def close(self) -> None:
        """Finish the rows being written, take no more, and close the connections."""
        with self._lock:
            self._is_closed = True
        if self._writer.pid == os.getpid():
            self._writer.close()

    def _open(self) -> RowWriter:
        return RowWriter(self._url, group=self._group, timeout_s=self._row_s, notify=self._notify)

    async def take(
        self, one: Prepared, error: NotSent | SendUnknown
    ) -> NotSent | SendUnknown | None:
        """Write the row; None when it is committed, else the first error with both reasons.

        Once it is closed nothing is written. A call that is cancelled takes the row back, or puts
        its id among those in doubt.
        """
        if self.is_too_large(one):
            reason = f"the record is larger than {self._max_request_bytes} bytes"
            return type(error)(one.request_id, reason)
        one = _asks_about_no_failure(one)
        with self._lock:
            if self._is_closed:
                return _closed(one, error)
            written = self._of_this_process().put(one)
        try:
            await self._known(written, self._row_s)
            written.result(0)
            return None
        except asyncio.CancelledError:
            if not written.cancel():
                self.in_doubt.add(one.request_id)
            raise
        except CancelledError:
            return _closed(one, error)
        except NotInTime:
            why = "the outbox did not answer in time"
            is_certain = written.cancel()
        except Uncommitted as fault:
            why, is_certain = str(fault), False
        except OncewardError as fault:
            why, is_certain = str(fault), True
        log.warning("outbox.away", reason=why)
        kind = type(error) if is_certain else SendUnknown
        return kind(one.request_id, f"{error.reason}; and {why}")

    async def away(self) -> str | None:
        """Return why no row can be written now; None: one can. None is left there."""
        with self._lock:
            if self._is_closed:
                return CLOSED
            tried = self._of_this_process().probe(_PROBE)
        await self._known(tried, self._row_s)
        try:
            tried.result(0)
        except (CancelledError, NotInTime):
            return "it did not answer in time"
        except OncewardError as error:
            return str(error)
        return None

    async def may_keep(self, request_id: str) -> bool:
        """Whether the outbox has a row of the request that was not sent, or does not say so now."""
        with self._lock:
            if self._is_closed:
                return True
            kept = self._of_this_process().keeps(request_id)
        try:
            await self._known(kept, self._row_s)
            return kept.result(0)
        except (CancelledError, NotInTime, OncewardError):
            return True
        finally:
            kept.cancel()  # one that nobody waits for holds up no row

    def _of_this_process(self) -> RowWriter:
        if self._writer.pid != os.getpid():
            self._inherited, self._writer = self._writer, self._open()
        return self._writer

    def _check(self) -> None:
        """Find a wrong database, or a user without rights, now and not in an outage.

        A database that is away is checked later.
        """
        checked = self._writer.probe(_PROBE)
        try:
            checked.result(2 * self._row_s)
        except OutboxForbidden:
            raise
        except (NotInTime, OutboxUnavailable) as error:
            why = error if isinstance(error, OutboxUnavailable) else "it does not answer"
            log_outage(log, "outbox.away", why)


class FallbackFlow(SendFlow):
    """Sends as `SendFlow` does, and writes to the outbox in an outage."""

    def __init__(self, *given: Any, fallback: Fallback, **named: Any) -> None:
        super().__init__(*given, **named)
        self._fallback = fallback
        self._circuit = fallback.circuit

    async def announce(self, batch: Sequence[Prepared]) -> list[Prepared | OncewardError | None]:
        """Write PENDING for each; see `SendFlow.announce`. Redis away is no error."""
        if not self._circuit.allows(_REDIS, monotonic_s()):
            return [_untold(one, "Redis was away a moment ago") for one in batch]
        try:
            told = await super().announce(batch)
        except (NotSent, SendUnknown) as error:
            if self._circuit.failed(_REDIS, monotonic_s()):
                log_outage(log, "redis.away", error)
            # A Redis that did not answer may have written them.
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
        """Send requests again; see `SendFlow.again_many`.

        While Kafka is known to be away PENDING is not written. A PENDING for an attempt that nobody
        sends would hide the attempt that a worker has.
        """
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
        """Return None when Kafka or the outbox has it, else the error."""
        error = await ending_of(one, record)
        if error is None:
            self._noted_back(one)
            return await self.word(one, None)
        if not _is_outage(error):
            return await self.word(one, await self.withdraw(one, error))
        if not isinstance(record, Diverted):
            self._noted_away(one, error)
        return await self.word(one, await self.withdraw(one, await self._fallback.take(one, error)))

    def _certain(
        self, one: Prepared, error: NotSent | SendUnknown | None
    ) -> NotSent | SendUnknown | None:
        """Return the caller's error: of an id that it named, NotSent only for what is too large.

        Redis does not know of a row that another process wrote while Redis was away, and the
        database cannot be asked when it is needed: it is then away as well.
        """
        told = super()._certain(one, error)
        is_kept = not one.named_by_caller or self._fallback.is_too_large(one)
        if not isinstance(told, NotSent) or is_kept:
            return told
        return made_unknown(told, f"{told.reason}; and {_WRITTEN_ELSEWHERE}")

    def _take_back(self, one: Prepared, record: OnItsWay | RecordNotSent | None) -> None:
        if one.request_id in self._fallback.in_doubt:
            # A relay may send it: its PENDING stays.
            self._fallback.in_doubt.discard(one.request_id)
            self._noted(one, None)
        else:
            super()._take_back(one, record)

    def _noted_back(self, one: Prepared) -> None:
        if self._circuit.worked(_topic(one)):
            log.info("topic.back", topic=one.payload.topic)

    def _noted_away(self, one: Prepared, error: NotSent | SendUnknown) -> None:
        if isinstance(error.__cause__, OutOfTime):
            return  # nobody asked Kafka
        if self._circuit.failed(_topic(one), monotonic_s()):
            log_outage(log, "topic.away", error, topic=one.payload.topic)


def _asks_about_no_failure(one: Prepared) -> Prepared:
    """Return a request that reopens no failure, if its status was not read before the sending.

    A failure that is written while the row waits is an end for its client, who may have asked under
    another id since.
    """
    if one.envelope.reopens is not None:
        return one
    return replace(one, envelope=one.envelope._replace(reopens=0))


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


def _like(kind: type[KindT], one: Prepared, **more: Any) -> KindT:
    return kind(**{name.name: getattr(one, name.name) for name in fields(Prepared)}, **more)
