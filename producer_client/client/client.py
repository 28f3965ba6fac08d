"""The client: send a request, see its status, wait for its end.

Errors tell what may happen: after NotSent the request is nowhere and will never run. After
SendUnknown it may run, and may be repeated freely under the same id. The code is in `sending` and
`waiter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from feedback.clock import monotonic_s
from feedback.errors import SettingsError
from feedback.kafka.durability import durability_of
from feedback.kafka.senders import open_sender
from feedback.kafka.sending import CLOSED, KafkaSender
from feedback.records.schemas import SchemaFile
from feedback.records.stored_payload import StoredPayload
from feedback.redis.events import EventListener
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings, load
from feedback.statuses import Status
from producer_client.client.wait_rules import WaitedRequest, shown_by
from producer_client.client.waiter import Waiter
from producer_client.owner import ClientClosed, ClientProcess
from producer_client.sending import send_batches, sync_bridge
from producer_client.sending.blocking_sends import BlockingSends
from producer_client.sending.send_flow import SendFlow
from producer_client.sending.sent_before import sent_before
from producer_client.sending.under_way import UnderWay
from producer_client.submission import Prepared, SendResult, Submission, Value

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

    from producer_client.outbox.fallback import Fallback


# Shares of `send_timeout_s`: Redis may be asked twice.
REDIS_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Handle:
    """A request that was sent: ask it for its status, or wait for its end."""

    request_id: str
    client: Client
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
    def of(cls, sent: Prepared, client: Client, *, written_at: int | None = None) -> Handle:
        """Return the handle of a sent request."""
        asked = sent.envelope
        facts = (sent.payload, asked.deadline_at, asked.attempt, asked.reopens, sent.is_new)
        return cls(sent.request_id, client, *facts, written_at)

    def status(self) -> Status:
        """Return the known status; UNKNOWN where that is the failure that this sending reopened.

        Raises:
            PayloadMismatch: another request has its id, and came first; this one, if it waits in
                an outbox, never runs.
        """
        return shown_by(self, self.client.status(self.request_id))

    def wait(self, timeout_s: float | None = None) -> Status:
        """Return the final status; see `Client.wait`."""
        return self.client.wait(self, timeout_s=timeout_s)


class Client:
    """Sends requests and follows them. Safe to share between threads, but not across a fork.

    A client that was used before the fork raises `ClientForked`; one that was only made works in
    each child. Once it is closed every call raises `ClientClosed`.

    >>> with Client() as client:                                        # doctest: +SKIP
    ...     order = {"amount": 5}
    ...     print(client.send(order, topic="payments", request_id="order-7").wait().state)

    Args:
        settings: a `Settings`, a TOML file, or None for the environment and defaults.
        model: a pydantic model that every value must match.
        schema: instead of a model, a JSON Schema file; default `[client] schema`.
        durability: "safe" or "fast"; default `[client] durability`.
        outbox: the URL of a database with an outbox. It takes requests that Kafka or Redis fails to
            take; half of `send_timeout_s` is then Kafka's.

    Raises:
        SettingsError: settings are wrong, or both a model and a schema are given.
        SchemaError: the schema cannot be used.
        OutboxVersionError: the database has no outbox, or one of another version.
        OutboxForbidden: its user may not write there.
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
        shares = TimeShares(self.settings, has_outbox=outbox is not None)
        redis = connect(shares.redis)
        self.store = StatusStore(redis, self.settings.kafka.group, self.settings.redis)
        self._events = EventListener(redis, self.store)
        self._sender = sender_of(self.settings, durability, send_timeout_s=shares.kafka_s)
        section = self.settings.client
        self._fallback: Fallback | None = None
        make_way: Callable[..., SendFlow] = SendFlow
        if outbox is not None:
            # Imported only here: programs without a database load no SQLAlchemy.
            from producer_client.outbox.fallback import Fallback

            self._fallback = Fallback(outbox, self.settings)
            make_way = self._fallback.way
        self._sending = BlockingSends(
            section,
            self.store,
            self._sender,
            model=model,
            schema=file,
            make_way=make_way,
            sent=sent_before(self.settings),
        )
        self._owner = ClientProcess()
        self._under_way = UnderWay()
        self._redis_s = shares.redis.timeout_s
        self._is_closed = False
        self._waiter = Waiter(
            section, self.store, self._events, self._sending, redis_s=self._redis_s
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish the sends under way, for at most `send_timeout_s`, and close for good; waits end
        at once with `ClientClosed`."""
        self._is_closed = True
        self._under_way.is_open = False
        if self._owner.is_other:
            return  # the connections are another process's
        self._events.wake_all()
        with ExitStack() as closing:
            closing.callback(self.store.close)
            closing.callback(self._events.close)
            # Sends that Kafka did not take are taken back: that is one call of Redis, or two.
            closing.callback(self._under_way.ended, 2 * self._redis_s)
            if self._fallback is not None:
                closing.callback(self._fallback.close)
            self._sender.close()

    def send(
        self,
        value: Value,
        *,
        key: bytes | str | None = None,
        topic: str | None = None,
        request_id: str | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        deadline_s: float | None = None,
        reopen: bool = True,
        connection: Connection | Session | scoped_session[Any] | None = None,
        using: str | None = None,
    ) -> Handle:
        """Send one request and return when Kafka has acknowledged it.

        It returns or raises within `send_timeout_s`, whichever server is away. If Redis stops
        answering at the end, while a failed send is taken back, it takes one `[redis] timeout_s`
        longer.

        With `connection` the request is only written into that database's outbox, within the open
        transaction there. A relay sends it after the commit, and nothing is sent without one. Its
        status is UNKNOWN until then. `using` does the same through Django's connection, inside
        `transaction.atomic()`. With an outbox of the client's own, the call also returns when Kafka
        has failed and the outbox has the request.

        With the id of a known request, the same request is sent again. One that has already ended
        is not: its handle answers at once.

        An error that a signal handler raises meanwhile says nothing of the request: do as after
        SendUnknown.

        Args:
            value: bytes as they are, text as UTF-8, a dict, list or pydantic model as JSON, None as
                a tombstone. An instance of the client's own model is not validated again.
            request_id: names the action ("order-7"), so that a caller who asks again asks for the
                same. Default: a new UUIDv7, which is enough where nobody ever asks again in another
                process, or after this call has raised.
            deadline_s: seconds from now in which its run must start.
            reopen: whether a request that failed, and that a resend may help, runs again. False:
                a request that a worker has had is not sent again, and its end is the answer. An
                HTTP proxy may repeat a call long after its caller has read the failure, and has
                asked for the same under another id.
            connection: of SQLAlchemy, to PostgreSQL or SQLite, and not in autocommit.
            using: an alias of Django's `DATABASES`, PostgreSQL (psycopg) or SQLite.

        Raises:
            InvalidMessage: it breaks the rules of requests; nothing was written.
            InvalidValue: its value does not match the model or the schema; nothing was written.
            PayloadMismatch: the id is taken by another key, value or topic.
            NotSent: Redis or Kafka is away or refused it; no trace is left, and it will never run.
            SendUnknown: it may yet run. Kafka may have it. Or a resender has taken it up meanwhile
                (whatever the clocks: this process may have been stopped). Or it was sent before
                under this id, or nobody can be asked whether it was, or Redis may have forgotten
                it; then its status is the earlier one. Sending it again under the same id is
                harmless.
            NoTransaction, OutboxVersionError, OutboxUnavailable, RowRefused: with `connection` or
                `using` only; nothing was written. See `producer_client.outbox`.
        """
        self._require_open()
        submission = Submission(
            value, key, topic, request_id, tuple(headers), deadline_s, reopen=reopen
        )
        if connection is not None or using is not None:
            return self._write(submission, connection, using)
        with self._under_way:
            sent = self._sending.one(submission)
        return Handle.of(sent, self)

    def _write(self, submission: Submission, connection: object, using: object) -> Handle:
        from producer_client.outbox import NoTransaction, django_writing, writing

        if connection is not None and using is not None:
            raise NoTransaction("give connection= or using=, not both: each is a transaction")
        one = self._sending.prepare(submission)
        limit = self.settings.client.max_request_bytes
        writing.require_sendable(one, max_request_bytes=limit)
        group, notify = self.settings.kafka.group, self.settings.outbox.notify
        write = writing.write if using is None else django_writing.write_django
        given = connection if using is None else using
        self._sending.way.row_follows(one)
        row = write(given, one, group=group, notify=notify)
        sent = Handle.of(one, self, written_at=row.written_at)
        return replace(sent, is_uncommitted=row.is_uncommitted)

    def send_many(
        self, submissions: Iterable[Submission | None], *, rate: float | None = None
    ) -> Iterator[SendResult]:
        """Send many requests, yielding each one's result in the order given.

        Redis gets one batch while Kafka takes the one before; the number in flight is bounded.

        Args:
            submissions: a batch waits for its last item. A source that may pause yields None when
                it does, and the items before it are sent at once.
            rate: requests per second at most; None for as fast as Kafka and Redis take them.

        Raises:
            BaseException: any error of `submissions`, after the requests before it were sent and
            their results yielded.
        """
        self._require_open()
        way = self._sending.way
        return sync_bridge.each(
            send_batches.send_many(
                way, submissions, rate=rate, sleep=sync_bridge.sleep, counting=self._under_way
            )
        )

    def resend(
        self,
        request_id: str,
        payload: StoredPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
    ) -> None:
        """Send a request again under the same id: attempt + 1, the same deadline.

        Args:
            known: its last status; UNKNOWN starts it anew.
            deadline_at: epoch ms, for a request whose status has no deadline.

        Raises:
            SendUnknown, PayloadMismatch: as for `send`; earlier traces stay, and so does PENDING
                where nothing was known.
        """
        self._require_open()
        with self._under_way:
            self._sending.again(request_id, payload, known=known, deadline_at=deadline_at)

    def status(self, request_id: str) -> Status:
        """Return the known status of a request; UNKNOWN when there is none.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        self._require_open()
        return self.store.read(request_id)

    def wait(
        self, request: Handle | str, *, timeout_s: float | None = None, resend: bool = True
    ) -> Status:
        """Return the final status, resending meanwhile when that helps.

        It is resent at LOST, and after `resend_after_s` without an end: attempt + 1, same id. The
        journal answers the resend of a request that has ended, so nothing ever runs twice by this.

        Args:
            request: a handle, or the id of a request whose payload Redis still has. Only a handle
                tells an end from an earlier failure that its sending reopened. With an id such a
                failure is returned: until a relay has sent an outbox row, and after Redis came back
                with older data.
            timeout_s: None waits without end. The call returns within this time, or half a second
                later if Redis hangs.
            resend: False only watches.

        Raises:
            WaitTimeout: nothing final was seen in time.
            PayloadMismatch: the handle's id is another request's.
            RedisUnavailable: Redis was away at the end of the time.
            NotCommitted: this thread and task hold the transaction of its outbox row.
        """
        self._require_open()
        if isinstance(request, Handle) and request.is_uncommitted():
            from producer_client.outbox import NotCommitted

            raise NotCommitted(request.request_id)
        waited = WaitedRequest.of(request, now_s=monotonic_s())
        return self._waiter.one(waited, timeout_s=timeout_s, resend=resend)

    def wait_many(
        self, request_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Iterator[Status]:
        """Yield the final status of each request as it ends, without resending.

        A few requests are listened for one by one; of many, some ends are noticed a quarter of a
        second late.

        Args:
            request_ids: their sendings are not known here, so an earlier failure that a sending
                reopened is returned, as by `wait` with an id. Wait for the handles of such
                sendings.
            timeout_s: None waits without end. The call returns within this time, or half a second
                later if Redis hangs.

        Raises:
            WaitTimeout: names one of the requests that had not ended in time.
            RedisUnavailable: Redis did not answer.
        """
        self._require_open()
        return self._waiter.many(request_ids, timeout_s=timeout_s)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosed(CLOSED)
        self._owner.require()


class TimeShares:
    """The time that each server may take, together no longer than `send_timeout_s`.

    Without an outbox Kafka gets the time that Redis leaves.

    Attributes:
        redis: the settings, with the `timeout_s` of one call.
        kafka_s: how long Kafka may take.
    """

    def __init__(self, settings: Settings, *, has_outbox: bool = False) -> None:
        send_s = settings.client.send_timeout_s
        redis_share, kafka_share = REDIS_SHARE, 1.0
        if has_outbox:
            from producer_client.outbox import fallback

            redis_share, kafka_share = fallback.REDIS_SHARE, fallback.KAFKA_SHARE
        redis_s = min(settings.redis.timeout_s, send_s * redis_share)
        self.redis = settings.redis.model_copy(update={"timeout_s": redis_s})
        self.kafka_s = send_s * kafka_share


def sender_of(
    settings: Settings, durability: str | None, *, send_timeout_s: float | None = None
) -> KafkaSender:
    """Return the sender that hands a client's records to Kafka.

    Args:
        send_timeout_s: instead of the setting.

    Raises:
        SettingsError: `durability` is not "safe" or "fast".
    """
    section = settings.client
    return open_sender(
        settings.kafka,
        send_timeout_s=section.send_timeout_s if send_timeout_s is None else send_timeout_s,
        max_request_bytes=section.max_request_bytes,
        durability=durability_of(
            section.durability if durability is None else durability,
            min_insync_replicas=section.min_insync_replicas,
        ),
    )


def schema_of(
    settings: Settings, model: type | None, given: Path | str | None
) -> SchemaFile | None:
    """Return the schema that every value must match; None with a model or with neither.

    Raises:
        SettingsError: both are given, or the model is not a pydantic model.
        SchemaError: the schema cannot be used.
    """
    if model is not None and given is not None:
        raise SettingsError("give model= or schema=, not both: both define the value")
    if model is not None and not hasattr(model, "model_validate_json"):
        raise SettingsError(f"model={model!r}: give a pydantic model class")
    path = given if given is not None else settings.client.schema_file
    # A model in the program wins over a schema in the settings.
    if model is not None or not path:
        return None
    file = SchemaFile(path)
    file.load()
    return file
