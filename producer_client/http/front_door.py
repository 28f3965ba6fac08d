"""Submits, follows and resends for the front door, through one `AsyncClient`.

If the process dies before a submission is answered, the request is nowhere, or it is PENDING with
its payload stored, or Kafka has it. The caller sends it again under its key: it is one request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial

from feedback.clock import epoch_ms
from feedback.errors import OncewardError, RedisUnavailable, SettingsError
from feedback.logs import EventLog
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import Status
from producer_client.client.async_client import AsyncClient, AsyncHandle
from producer_client.http import problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.callers import Caller
from producer_client.http.door import (
    HttpOrder,
    TopicOffer,
    accepted_answer,
    document_of,
    etag_of,
    is_among,
    is_repeat_of,
    may_see,
    not_sent,
    resendable,
    status_answer,
    status_headers,
)
from producer_client.http.problems import Problem
from producer_client.http.read_tokens import read_tokens_of
from producer_client.http.value_checks import ValueChecks
from producer_client.owner import ClientClosed

log = EventLog("onceward.http")


def client_of(settings: Settings) -> AsyncClient:
    """Return the client of a front door: with the outbox, where `[http] outbox` says so.

    Raises:
        SettingsError: there is no outbox.
        OutboxVersionError, OutboxForbidden: as for `Client`.
    """
    return AsyncClient(settings, outbox=outbox_of(settings))


def outbox_of(settings: Settings) -> str | None:
    """Return the URL of the outbox of a front door; None: it has none.

    Raises:
        SettingsError: it is asked for, and not named.
    """
    if not settings.http.outbox:
        return None
    if not settings.outbox.url:
        raise SettingsError("[http] outbox = true needs [outbox] url")
    return settings.outbox.url


class FrontDoor:
    """The front door of one process. Belongs to its client's loop.

    Args:
        client: sends and reads; its settings have the offered topics.

    Raises:
        NotAvailable: the file of the read tokens' secret cannot be read.
        SettingsError: that secret is too short.

    Attributes:
        is_draining: no wait and no stream goes on.
        was_cut: an answer was cut off.
    """

    def __init__(self, client: AsyncClient) -> None:
        settings = client.settings
        self.offer = TopicOffer(settings.http, max_request_bytes=settings.client.max_request_bytes)
        self.client = client
        self.is_draining = False
        self.was_cut = False
        self._tokens = read_tokens_of(settings.http, group=settings.kafka.group)
        self._checks = ValueChecks(timeout_s=settings.client.send_timeout_s)
        self._look_s = settings.client.poll_interval_s

    async def why_not_ready(self) -> str | None:
        """Return why submissions are not accepted now; None: they are. Kafka is not asked."""
        if self.is_draining:
            return "draining"
        if self.is_stuck:
            return "the checks of values do not end: a validator hangs"
        try:
            await self.client.status("-")
        except RedisUnavailable as error:
            # With an outbox it accepts all the same: it must not leave the balancer.
            if not self.client.has_outbox:
                return str(error)
            outbox = await self.client.outbox_away()
            return None if outbox is None else f"{error}; and the outbox: {outbox}"
        except ClientClosed as error:
            return str(error)
        return None

    @property
    def is_stuck(self) -> bool:
        """Whether validators hang, so that no value of a topic with a model is accepted."""
        return self._checks.are_stuck

    def drain(self) -> None:
        """End all waits and streams soon; sends go on."""
        self.is_draining = True
        self.client.wake()

    async def submit(self, order: HttpOrder) -> HttpAnswer:
        """Send a submission, and return its answer: 202 when Kafka and Redis have it."""
        try:
            if self.offer.is_checked(order.topic) and (refused := await self._refused(order)):
                return refused.answer()
            handle = await self.client.send(
                order.body,
                key=order.message_key,
                topic=order.topic,
                request_id=order.request_id,
                reopen=False,
            )
            status, is_repeat = await self._status_of(order, handle)
        except OncewardError as error:
            log.warning("request.not_accepted", request_id=order.request_id, reason=str(error))
            return not_sent(order, error).answer()
        token = self._tokens.issue(order.request_id, epoch_ms())
        return accepted_answer(order, status, is_repeat=is_repeat, now_ms=epoch_ms(), token=token)

    async def _refused(self, order: HttpOrder) -> Problem | None:
        """Return why a value is refused; never for what was accepted before by an older model."""
        try:
            fault = await self._checks.fault(partial(self.offer.fault, order))
        except TimeoutError:
            log.warning("http.check_too_slow", topic=order.topic, request_id=order.request_id)
            return Problem(problems.UNKNOWN, more={"request_id": order.request_id})
        if fault is None:
            return None
        # A relay writes the status before it takes the row away, so they are read in this order.
        is_kept = await self.client.outbox_may_keep(order.request_id)
        known = await self.client.status(order.request_id)
        if is_repeat_of(order, known):
            return None
        if known.state is not State.UNKNOWN:
            return Problem(problems.INVALID_VALUE, fault)
        if is_kept or await self.client.doubt(order.request_id) is not None:
            # It may have been accepted before: a mended value would be a second request.
            return Problem(problems.UNKNOWN, more={"request_id": order.request_id})
        return Problem(problems.INVALID_VALUE, fault)

    async def _status_of(self, order: HttpOrder, handle: AsyncHandle) -> tuple[Status, bool]:
        """Return the status of what was accepted, and whether it is a repeat."""
        if order.wait_s:
            found = await self.until(order.request_id, lambda one: one.state.is_final, order.wait_s)
            if found is not None and found.state is not State.UNKNOWN:
                return found, not handle.is_new
        if not handle.is_new:
            # Redis is away: the outbox has it, and nobody can know whether it is a repeat.
            with suppress(RedisUnavailable):
                status = await self.client.status(order.request_id)
                if status.state is not State.UNKNOWN:
                    return status, True
        accepted_now = Status(
            order.request_id,
            State.PENDING,
            attempt=1,
            updated_at=epoch_ms(),
            deadline_at=handle.deadline_at,
            topic=order.topic,
        )
        return accepted_now, False

    def opens(self, token: str, request_id: str) -> bool:
        """Whether a read token opens a request."""
        return self._tokens.opens(token, epoch_ms()) == request_id

    async def status(self, request_id: str, caller: Caller | None) -> Status | Problem:
        """Return the status of a request, if it may be known of.

        Args:
            caller: None for the bearer of the request's own read token.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        if caller is not None and not may_see(caller, request_id):
            return Problem(problems.NOT_FOUND)
        status = await self.client.status(request_id)
        if caller is not None and not may_see(caller, request_id, status.topic):
            return Problem(problems.NOT_FOUND)
        if status.state is not State.UNKNOWN:
            return status
        # "There is none" would have it asked for again under another key: its row may wait in the
        # outbox, or Redis may have forgotten it.
        is_unsure = self.client.has_outbox or await self.client.doubt(request_id) is not None
        return Problem(problems.UNAVAILABLE if is_unsure else problems.NOT_FOUND)

    async def look(
        self, status: Status, *, if_none_match: str | None, wait_s: float | None, prefix: str
    ) -> HttpAnswer:
        """Return the answer to a question for a status; hold it until there is news.

        Args:
            status: as it was read.
            if_none_match: the tags of what the caller has read; None: nothing.
            wait_s: None: do not hold it.
            prefix: the pages are below this path.
        """

        def is_news(one: Status) -> bool:
            is_other = if_none_match is not None and not is_among(etag_of(one), if_none_match)
            return one.state.is_final or is_other

        if wait_s and not is_news(status):
            status = await self.until(status.request_id, is_news, wait_s) or status
        return status_answer(status, if_none_match=if_none_match, now_ms=epoch_ms(), prefix=prefix)

    async def until(
        self, request_id: str, is_it: Callable[[Status], bool], wait_s: float
    ) -> Status | None:
        """Return the first status that `is_it`, or the last before the time or the draining.

        None: Redis never answered.
        """
        status: Status | None = None
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(wait_s),
                aclosing(self.client.changes(request_id, every_s=self._look_s)) as changes,
            ):
                async for now in changes:
                    status = now or status
                    if self.is_draining or (status is not None and is_it(status)):
                        break
        return status

    async def resend(self, status: Status, if_match: str | None, prefix: str) -> HttpAnswer:
        """Send a request again, where that may help, and return the answer.

        Args:
            prefix: the pages are below this path.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        if (refused := resendable(status, if_match)) is not None:
            return refused.answer()
        request_id = status.request_id
        payload = await self.client.store.kept_payload(request_id)
        if payload is None:
            return Problem(problems.NOT_RESENDABLE, "its payload is gone").answer()
        try:
            await self.client.resend(request_id, payload, known=status)
        except RedisUnavailable:
            raise
        except OncewardError as error:
            log.warning("request.not_accepted", request_id=request_id, reason=str(error))
            return Problem(problems.UNKNOWN, more={"request_id": request_id}).answer()
        now = await self.client.status(request_id)
        document = document_of(now, prefix=prefix)
        return HttpAnswer(202, json.dumps(document).encode(), status_headers(now, epoch_ms()))
