"""The pages of the front door, for any framework: a call in, an answer out.

A framework's own module makes an `HttpCall` of its request, and sends the answer of
`DoorPages.answered`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable, RedisUnavailable
from feedback.logs import EventLog
from feedback.statuses import Status
from producer_client.http import problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.browser_module import BROWSER_MODULE
from producer_client.http.callers import Caller, NotAuthenticated
from producer_client.http.door import HttpOrder
from producer_client.http.events import events, has_ended
from producer_client.http.front_door import FrontDoor
from producer_client.http.metrics import DoorMetrics
from producer_client.http.openapi import ONE, document
from producer_client.http.openapi_page import page_of
from producer_client.http.problems import Problem
from producer_client.http.rates import RateLimit
from producer_client.owner import ClientClosed

log = EventLog("onceward.http")

DESCRIBED = {
    "Cache-Control": "private, no-cache",
    # The page has a style and nothing else; a schema's text runs nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}
STREAMED = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class CallerLeft(Exception):
    """The body did not arrive whole."""


@dataclass(slots=True)
class HttpCall:
    """One HTTP request, as the pages take it.

    Attributes:
        headers: by their names in lower case; several of one name joined by newlines.
        query: the parameters of the address.
        path: the parts of the path that have a name.
        prefix: where an application has mounted the pages.
        address: the IP address of the peer.
        recognise: returns the caller, or raises as `Authentication.caller` does.
        body: returns the body, or the first bytes of one that is longer than the limit given.
        caller: as it was recognised.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    path: Mapping[str, str]
    prefix: str
    address: str
    recognise: Callable[[HttpCall], Awaitable[Caller]]
    body: Callable[[int], Awaitable[bytes]]
    caller: Caller | None = None
    request_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.request_id = self.path.get("request_id", "")


@dataclass(frozen=True, slots=True)
class HttpStream:
    """An answer of events: a 200 with the headers `STREAMED`, and its parts."""

    parts: AsyncGenerator[bytes]
    status = 200


DoorPage = Callable[[HttpCall], Awaitable[HttpAnswer | HttpStream | Problem]]


class PageAt(NamedTuple):
    """A page: its method, its path, where a part in braces has a name, and its own name."""

    method: str
    path: str
    name: str


# Frameworks look through them in this order: the page that is asked most is the first.
PAGES = (
    PageAt("GET", ONE, "status"),
    PageAt("POST", "/v1/{topic}", "submit"),
    PageAt("GET", f"{ONE}/events", "events"),
    PageAt("POST", f"{ONE}/resend", "resend"),
    PageAt("GET", "/onceward.js", "browser-module"),
    PageAt("GET", "/openapi.json", "openapi"),
    PageAt("GET", "/openapi.html", "openapi-page"),
)


def needs_caller(at: PageAt, query: Mapping[str, str]) -> bool:
    """Whether a page asks who calls: not where a read token opens it, nor for the module."""
    has_token = at.method == "GET" and at.path.startswith(ONE) and "token" in query
    return not has_token and at.name != "browser-module"


class DoorPages:
    """The pages of the front door. Belongs to its client's loop.

    Args:
        door: submits and follows.
        metrics: counts answers and streams.
        has_probes: those of a process of its own are served as well.
    """

    def __init__(self, door: FrontDoor, metrics: DoorMetrics, *, has_probes: bool = False) -> None:
        section = door.client.settings.http
        self.metrics = metrics
        self._door = door
        self._section = section
        self._submits = RateLimit(section.submit_rate)
        self._reads = RateLimit(section.status_rate)
        self._described = document(section, door.offer, has_probes=has_probes)
        self._pages: Mapping[str, DoorPage] = {
            "submit": self._submit,
            "status": self._status,
            "events": self._events,
            "resend": self._resend,
            "browser-module": _browser_module,
            "openapi": self._openapi,
            "openapi-page": self._openapi_page,
        }

    async def answered(self, at: PageAt, asked: HttpCall) -> HttpAnswer | HttpStream:
        """Return a page's answer, counted and logged."""
        began_s = monotonic_s()
        found = await self._found(at, asked)
        answer = found.answer() if isinstance(found, Problem) else found
        took_s = monotonic_s() - began_s
        self.metrics.answered(at.name, answer.status, took_s)
        log.info(
            "http.answered",
            page=at.name,
            status=answer.status,
            request_id=asked.request_id,
            caller=asked.caller.name if asked.caller else "",
            ms=round(took_s * 1000, 1),
        )
        return answer

    async def _found(self, at: PageAt, asked: HttpCall) -> HttpAnswer | HttpStream | Problem:
        try:
            return await self._pages[at.name](asked)
        except NotAuthenticated as error:
            log.info("http.not_authenticated", reason=error.reason, address=asked.address)
            challenge = {"WWW-Authenticate": error.challenge}
            return Problem(problems.NOT_AUTHENTICATED, headers=challenge)
        except (RedisUnavailable, NotAvailable, ClientClosed) as error:
            log.warning("http.unavailable", reason=str(error))
            return Problem(problems.UNAVAILABLE)
        except asyncio.CancelledError:
            self._door.was_cut = True
            if not self._door.is_draining:
                raise
            return _cut(at, asked)
        except CallerLeft:
            said = "the body did not arrive whole; it needs a Content-Length that is right"
            return Problem(problems.MALFORMED, said, headers={"Connection": "close"})
        except Exception as error:  # its text may quote a payload
            log.raised("http.failed", error)
            return Problem(problems.INTERNAL)

    async def _submit(self, asked: HttpCall) -> HttpAnswer | Problem:
        caller = await self._caller(asked)
        if (refused := self._too_many(self._submits, asked, caller)) is not None:
            return refused
        topic, offer = asked.path["topic"], self._door.offer
        if (refused := offer.entry(topic, caller, asked.headers)) is not None:
            return refused
        try:
            async with asyncio.timeout(self._section.body_timeout_s):
                body = await asked.body(offer.max_body_bytes)
        except TimeoutError:
            return Problem(problems.TOO_SLOW, headers={"Connection": "close"})
        order = offer.order_of(topic, caller, asked.headers, body, prefix=asked.prefix)
        if isinstance(order, HttpOrder):
            asked.request_id = order.request_id
            return await self._door.submit(order)
        return order

    async def _status(self, asked: HttpCall) -> HttpAnswer | Problem:
        status = await self._known(asked)
        if isinstance(status, Problem):
            return status
        wait = asked.query.get("wait")
        if wait is not None and not wait.isdecimal():
            return Problem(problems.MALFORMED, "wait is a number of seconds")
        return await self._door.look(
            status,
            if_none_match=asked.headers.get("if-none-match"),
            wait_s=self._door.offer.wait_s(wait),
            prefix=asked.prefix,
        )

    async def _events(self, asked: HttpCall) -> HttpAnswer | HttpStream | Problem:
        status = await self._known(asked)
        if isinstance(status, Problem):
            return status
        last = asked.headers.get("last-event-id", "")
        if has_ended(status, last):
            return HttpAnswer(204)  # an EventSource does not connect again
        stream = events(
            self._door,
            asked.request_id,
            last_event_id=last,
            heartbeat_s=self._section.heartbeat_s,
            prefix=asked.prefix,
        )
        return HttpStream(stream)

    async def _resend(self, asked: HttpCall) -> HttpAnswer | Problem:
        caller = await self._caller(asked)
        if (refused := self._too_many(self._submits, asked, caller)) is not None:
            return refused
        status = await self._door.status(asked.request_id, caller)
        if isinstance(status, Problem):
            return status
        if not caller.submits_to(status.topic or ""):
            return Problem(problems.NOT_ALLOWED)
        return await self._door.resend(status, asked.headers.get("if-match"), asked.prefix)

    async def _openapi(self, asked: HttpCall) -> HttpAnswer | Problem:
        if (refused := await self._refused_reader(asked)) is not None:
            return refused
        servers = [{"url": asked.prefix or "/"}]
        body = json.dumps({**self._described, "servers": servers}).encode()
        return HttpAnswer(200, body, {"Content-Type": "application/json", **DESCRIBED})

    async def _openapi_page(self, asked: HttpCall) -> HttpAnswer | Problem:
        if (refused := await self._refused_reader(asked)) is not None:
            return refused
        body = page_of(self._described).encode("utf-8", "replace")
        return HttpAnswer(200, body, {"Content-Type": "text/html; charset=utf-8", **DESCRIBED})

    async def _refused_reader(self, asked: HttpCall) -> Problem | None:
        # The document names the topics and their schemas, which are no stranger's business.
        caller = await self._caller(asked)
        return self._too_many(self._reads, asked, caller)

    async def _known(self, asked: HttpCall) -> Status | Problem:
        token = asked.query.get("token")
        if token is not None:
            if not self._door.opens(token, asked.request_id):
                return Problem(problems.NOT_FOUND)
            caller, counted = None, asked.request_id
        else:
            caller = await self._caller(asked)
            counted = caller.name
        if (refused := self._too_many(self._reads, asked, caller, counted)) is not None:
            return refused
        return await self._door.status(asked.request_id, caller)

    async def _caller(self, asked: HttpCall) -> Caller:
        asked.caller = await asked.recognise(asked)
        return asked.caller

    def _too_many(
        self, limit: RateLimit, asked: HttpCall, caller: Caller | None, counted: str = ""
    ) -> Problem | None:
        name = counted or (caller.name if caller else "") or asked.address
        wait_s = limit.take(name, now_s=monotonic_s())
        if not wait_s:
            return None
        return Problem(problems.TOO_MANY, headers={"Retry-After": str(ceil(wait_s))})


def _cut(at: PageAt, asked: HttpCall) -> Problem:
    """Return the answer of a page that the end of the process cuts.

    What was sent may have arrived. What was not is taken back, or a resender sends it.
    """
    if at.method != "POST":
        return Problem(problems.UNAVAILABLE)
    more = {"request_id": asked.request_id} if asked.request_id else {}
    return Problem(problems.UNKNOWN, more=more)


async def _browser_module(_: HttpCall) -> HttpAnswer:
    return BROWSER_MODULE
