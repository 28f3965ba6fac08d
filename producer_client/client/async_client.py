"""The client for asyncio: the same requests, errors and promises, without blocking the loop.

The steps of a send are in `send_flow`, as for `Client`. Here redis.asyncio calls Redis, and threads
wait for Kafka (`async_sender`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from feedback.clock import monotonic_s
from feedback.errors import RedisRefused, RedisUnavailable
from feedback.kafka.sending import CLOSED
from feedback.records.stored_payload import StoredPayload
from feedback.redis.async_events import AsyncEventListener
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.settings.settings import Settings, load
from feedback.statuses import Refused, Status, StatusWrite, WriteAnswer
from producer_client.client.async_waiter import AsyncWaiter
from producer_client.client.client import TimeShares, schema_of, sender_of
from producer_client.client.wait_rules import WaitedRequest, shown_by
from producer_client.owner import ClientClosed, ClientProcess
from producer_client.sending.async_sender import AsyncSender
from producer_client.sending.send_batches import Source, send_many
from producer_client.sending.send_flow import SendFlow
from producer_client.sending.sent_before import sent_before
from producer_client.sending.under_way import TasksUnderWay
from producer_client.submission import Prepared, SendResult, Submission, Value

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import (
        AsyncConnection,
        AsyncSession,
        async_scoped_session,
    )

    from producer_client.outbox.fallback import Fallback


@dataclass(frozen=True, slots=True)
class AsyncHandle:
    """A request that was sent: ask it for its status, or wait for its end."""

    request_id: str
    client: AsyncClient
    payload: StoredPayload
    deadline_at: int | None
    # The attempt of this sending, and the failure that it reopened: a wait returns no earlier
    # failure.
    attempt: int = 1
    reopens: int | None = None
    # Whether nobody had sent it before, as far as Redis knew.
    is_new: bool = True
    # When its outbox row was written, in epoch ms of the database's clock; None: it was sent. A
    # wait does not send such a request. A relay does, since the row's transaction may be rolled
    # back.
    written_at: int | None = None
    # Whether who asks holds the transaction of that row.
    is_uncommitted: Callable[[], bool] = field(default=lambda: False, repr=False, compare=False)

    @classmethod
    def of(
        cls, sent: Prepared, client: AsyncClient, *, written_at: int | None = None
    ) -> AsyncHandle:
        """Return the handle of a sent request."""
        asked = sent.envelope
        facts = (sent.payload, asked.deadline_at, asked.attempt, asked.reopens, sent.is_new)
        return cls(sent.request_id, client, *facts, written_at)

    async def status(self) -> Status:
        """Return the known status; UNKNOWN where that is the failure that this sending reopened.

        Raises:
            PayloadMismatch: another request has its id, and came first; this one, if it waits in
                an outbox, never runs.
        """
        return shown_by(self, await self.client.status(self.request_id))

    async def wait(self, timeout_s: float | None = None) -> Status:
        """Return the final status; see `AsyncClient.wait`."""
        return await self.client.wait(self, timeout_s=timeout_s)


class AsyncClient:
    """Sends requests and follows them. Belongs to the loop it is entered in, and all its tasks.

    Once it is closed every call raises `ClientClosed`.

    A call may be cancelled at any time and leaves no task, thread or connection behind. A send that
    is cancelled before its record was handed over to Kafka is taken back, without a trace. After
    that it stays PENDING, as with `SendUnknown`: give such requests ids of your own, to find them
    by.

    >>> async def pay() -> None:                                        # doctest: +SKIP
    ...     async with AsyncClient() as client:
    ...         order = {"amount": 5}
    ...         handle = await client.send(order, topic="payments", request_id="order-7")
    ...         print((await handle.wait()).state)

    Args:
        settings, model, schema, durability, outbox: as for `Client`.

    Raises:
        SettingsError, SchemaError, OutboxVersionError, OutboxForbidden: as for `Client`.
    """

    def __init__(
        self,
        settings: Settings | Path | str | None = None,
        *,
        model: type | None = None,
        schema: Path | str | None = None,
        durability: Literal["safe", "fast"] | None = None,
        outbox: str | None = None,
    ) -> None:
        self.settings = settings if isinstance(settings, Settings) else load(settings)
        file = schema_of(self.settings, model, schema)
        section = self.settings.client
        shares = TimeShares(self.settings, has_outbox=outbox is not None)
        redis = connect_async(shares.redis)
        self.store = AsyncStatusStore(
            redis, self.settings.kafka.group, shares.redis, unheard=self._forget_unheard
        )
        self._events = AsyncEventListener(redis, self.store)
        sender = sender_of(self.settings, durability, send_timeout_s=shares.kafka_s)
        self._sender = AsyncSender(sender, send_timeout_s=shares.kafka_s)
        self._fallback: Fallback | None = None
        make_way: Callable[..., SendFlow] = SendFlow
        if outbox is not None:
            # Imported only here: programs without a database load no SQLAlchemy.
            from producer_client.outbox.fallback import Fallback, known_to_loop

            self._fallback = Fallback(outbox, self.settings, known=known_to_loop)
            make_way = self._fallback.way
        self._way = make_way(
            section,
            self.store,
            self._sender,
            model=model,
            schema=file,
            on_taken_back=self._forget_soon,
            sent=sent_before(self.settings),
        )
        self._waiter = AsyncWaiter(section, self.store, self._events, self._way)
        self._forgetting: set[asyncio.Task[None]] = set()
        self._under_way = TasksUnderWay()
        self._redis_s = shares.redis.timeout_s
        self._is_closed = False
        self._owner = ClientProcess()

    @property
    def has_outbox(self) -> bool:
        """Whether requests are written into an outbox while Kafka is away."""
        return self._fallback is not None

    async def outbox_may_keep(self, request_id: str) -> bool:
        """Whether a row of the request may wait in the outbox; False where there is no outbox."""
        return self._fallback is not None and await self._fallback.may_keep(request_id)

    async def outbox_away(self) -> str | None:
        """Return why the outbox takes no row now; None: it does, or there is none."""
        return None if self._fallback is None else await self._fallback.away()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish the sends under way, for about `send_timeout_s` at most, and close for good; waits
        end at once with `ClientClosed`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._under_way.is_open = False
        if self._owner.is_other:
            return  # the connections are another process's
        self._events.wake_all()
        try:
            await self._sender.aclose()
            if self._fallback is not None:
                # An interpreter that ends has ended the threads of its rows as well.
                with contextlib.suppress(RuntimeError):
                    await asyncio.to_thread(self._fallback.close)
            # Sends that Kafka did not take are taken back.
            await self._under_way.ended(2 * self._redis_s)
            await self.store.written()
            await asyncio.gather(*self._forgetting, return_exceptions=True)
        finally:
            # Even when the closing itself is cancelled.
            if self._fallback is not None:
                self._fallback.close()
            try:
                await self._events.aclose()
            finally:
                await self.store.aclose()

    async def send(
        self,
        value: Value,
        *,
        key: bytes | str | None = None,
        topic: str | None = None,
        request_id: str | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        deadline_s: float | None = None,
        reopen: bool = True,
        connection: AsyncConnection | AsyncSession | async_scoped_session[Any] | None = None,
        using: str | None = None,
    ) -> AsyncHandle:
        """Send one request and return when Kafka has acknowledged it; see `Client.send`.

        Args:
            request_id: names the action ("order-7"); an id made here is enough where nobody ever
                asks again in another process, or after this call has raised.
            connection: of SQLAlchemy for asyncio, to PostgreSQL or SQLite, and not in autocommit:
                the request is only written into that database's outbox; see `Client.send`.
            using: is refused. Django's transaction belongs to a thread: there a `Client` sends, in
                the function that `sync_to_async` runs.

        Raises:
            InvalidMessage, InvalidValue, PayloadMismatch, NotSent, SendUnknown: as there.
            NoTransaction, OutboxVersionError, OutboxUnavailable, RowRefused: as there.
            CancelledError: taken back without a trace, or PENDING; see the class. With `connection`
                the row may be written; the transaction decides over it.
        """
        self._require_open()
        submission = Submission(
            value, key, topic, request_id, tuple(headers), deadline_s, reopen=reopen
        )
        if using is not None:
            from producer_client.outbox import NoTransaction

            raise NoTransaction(
                "using= is for a Client: Django's transaction belongs to a thread; call "
                "Client.send(using=...) in the function that sync_to_async runs"
            )
        if connection is not None:
            return await self._write(connection, submission)
        with self._under_way:
            sent = await self._way.one(submission)
        return AsyncHandle.of(sent, self)

    async def _write(self, connection: object, submission: Submission) -> AsyncHandle:
        # Imported only here: programs without a database load no SQLAlchemy.
        from producer_client.outbox import writing

        one = self._way.prepare(submission)
        limit = self.settings.client.max_request_bytes
        writing.require_sendable(one, max_request_bytes=limit)
        group, notify = self.settings.kafka.group, self.settings.outbox.notify
        self._way.row_follows(one)
        row = await writing.write_async(connection, one, group=group, notify=notify)
        sent = AsyncHandle.of(one, self, written_at=row.written_at)
        return replace(sent, is_uncommitted=row.is_uncommitted)

    def send_many(
        self, submissions: Source, *, rate: float | None = None
    ) -> AsyncIterator[SendResult]:
        """Send many requests, yielding each one's result in the order given.

        Args:
            submissions: an iterable or an asynchronous one; see `Client.send_many`. The loop waits
                while a plain one makes its next item.
            rate: requests per second at most; None for as fast as Kafka and Redis take them.

        Raises:
            BaseException: any error of `submissions`, after the requests before it were sent and
            their results yielded.
        """
        self._require_open()
        return send_many(
            self._way, submissions, rate=rate, sleep=asyncio.sleep, counting=self._under_way
        )

    async def resend(
        self,
        request_id: str,
        payload: StoredPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
    ) -> None:
        """Send a request again under the same id; see `Client.resend`.

        Raises:
            SendUnknown, PayloadMismatch: as for `send`; earlier traces stay.
        """
        self._require_open()
        with self._under_way:
            await self._way.again(request_id, payload, known=known, deadline_at=deadline_at)

    async def status(self, request_id: str) -> Status:
        """Return the known status of a request; UNKNOWN when there is none.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        self._require_open()
        return await self.store.read(request_id)

    async def doubt(self, request_id: str) -> str | None:
        """Return why a request may have been sent though its status is UNKNOWN.

        Redis may have forgotten it: it was emptied or started again, or this process sent it. None:
        nothing says so. A row in an outbox is not looked for.
        """
        self._require_open()
        return await self._way.doubt(request_id)

    async def wait(
        self, request: AsyncHandle | str, *, timeout_s: float | None = None, resend: bool = True
    ) -> Status:
        """Return the final status, resending meanwhile when that helps; see `Client.wait`.

        Raises:
            WaitTimeout: nothing final was seen in time.
            PayloadMismatch: the handle's id is another request's.
            RedisUnavailable: Redis was away at the end of the time.
            NotCommitted: this thread and task hold the transaction of its outbox row.
        """
        self._require_open()
        if isinstance(request, AsyncHandle) and request.is_uncommitted():
            from producer_client.outbox import NotCommitted

            raise NotCommitted(request.request_id)
        waited = WaitedRequest.of(request, now_s=monotonic_s())
        return await self._waiter.one(waited, timeout_s=timeout_s, resend=resend)

    def wait_many(
        self, request_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> AsyncIterator[Status]:
        """Yield the final status of each request as it ends, without resending; see
        `Client.wait_many`.

        Raises:
            WaitTimeout: names one of the requests that had not ended in time.
            RedisUnavailable: Redis did not answer.
        """
        self._require_open()
        return self._waiter.many(request_ids, timeout_s=timeout_s)

    def changes(self, request_id: str, *, every_s: float) -> AsyncGenerator[Status | None]:
        """Yield the status of a request now and after each change, without an end.

        It may yield the same status again. Close it when it is left (`contextlib.aclosing`).

        Args:
            every_s: yield it also after so long without a change; None: Redis did not answer.
        """
        self._require_open()
        return self._waiter.changes(request_id, every_s=every_s)

    def wake(self) -> None:
        """Let all waits, and the iterators of `changes`, look at once."""
        self._events.wake()

    def _forget_soon(self, one: Prepared) -> None:
        """Take back a cancelled send's PENDING."""
        self._begin_forgetting(self._way.forget(one))

    def _forget_unheard(self, write: StatusWrite, answer: WriteAnswer) -> None:
        """Take back the PENDING of a send that was cancelled while Redis wrote it.

        One that Redis has not written is not taken back: the PENDING there may be another task's.
        """
        if isinstance(answer, Refused | RedisRefused):
            return
        forgetting = self.store.forget(
            write.request_id,
            attempt=write.attempt,
            payload_sha256=write.payload_sha256,
            deadline_at=int(write.fields["deadline_at"]),
            replaced=answer,
        )
        self._begin_forgetting(forgetting)

    def _begin_forgetting(self, forgetting: Coroutine[object, object, bool]) -> None:
        async def forget() -> None:
            # Redis is away: the payload is still stored there, so a resender may yet send it.
            with contextlib.suppress(RedisUnavailable):
                await forgetting

        # In another task: the send's own is being ended.
        task = asyncio.create_task(forget(), name="onceward-forgetting")
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosed(CLOSED)
        self._owner.require()
