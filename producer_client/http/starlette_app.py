"""The front door as a Starlette application, and as routes for one that exists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from math import ceil

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable, RedisUnavailable
from feedback.logs import EventLog
from feedback.statuses import Status
from producer_client.async_client import AsyncClient
from producer_client.http import problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.browser_module import BROWSER_MODULE
from producer_client.http.callers import Authentication, Caller, NotAuthenticated, recognise
from producer_client.http.door import HttpOrder
from producer_client.http.events import events, has_ended
from producer_client.http.front_door import FrontDoor
from producer_client.http.metrics import DoorMetrics
from producer_client.http.openapi import ONE, document
from producer_client.http.problems import Problem
from producer_client.http.rates import RateLimit
from producer_client.owner import ClientClosed

log = EventLog("onceward.http")

SHOWN_TO_PAGES = ("ETag", "Idempotent-Replayed", "Location", "Retry-After", "Warning")
FROM_PAGES = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match",
    "Last-Event-ID", "Onceward-Key", "Prefer",
)  # fmt: skip
DESCRIBED = {"Content-Type": "application/json", "Cache-Control": "private, no-cache"}
STREAMED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Page = Callable[["HttpCall"], Awaitable[HttpAnswer | Response | Problem]]


class HttpCall:
    """One HTTP request, with its headers as the rules take them."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.headers: dict[str, str] = {}
        for name, value in request.headers.items():
            before = self.headers.get(name)
            self.headers[name] = value if before is None else f"{before}\n{value}"
        self.address = request.client.host if request.client else ""
        self.caller: Caller | None = None
        # Where an application has mounted the pages.
        self.prefix: str = request.scope.get("root_path", "")
        self.request_id: str = request.path_params.get("request_id", "")

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address."""
        return self.request.query_params


class Pages:
    """The pages of the front door.

    Args:
        door: submits and follows.
        authentication: recognises callers.
        metrics: counts answers.
    """

    def __init__(
        self, door: FrontDoor, authentication: Authentication, metrics: DoorMetrics
    ) -> None:
        section = door.client.settings.http
        self._door = door
        self._authentication = authentication
        self._metrics = metrics
        self._section = section
        self._submits = RateLimit(section.submit_rate)
        self._reads = RateLimit(section.status_rate)

    def routes(self, *probes: BaseRoute) -> list[BaseRoute]:
        """Return the routes, with those of a process of its own first."""
        described = document(self._section, self._door.offer, has_probes=bool(probes))
        openapi = self._page("openapi", partial(self._openapi, described))
        return [
            *probes,
            Route("/v1/{topic}", self._page("submit", self._submit), methods=["POST"]),
            Route(ONE, self._page("status", self._status), methods=["GET"]),
            Route(f"{ONE}/events", self._page("events", self._events), methods=["GET"]),
            Route(f"{ONE}/resend", self._page("resend", self._resend), methods=["POST"]),
            Route("/onceward.js", _browser_module, methods=["GET"]),
            Route("/openapi.json", openapi, methods=["GET"]),
        ]

    def _page(self, name: str, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            began_s = monotonic_s()
            asked = HttpCall(request)
            answer = await self._answered(page, asked)
            status, took_s = answer.status_code, monotonic_s() - began_s
            self._metrics.answered(name, status, took_s)
            log.info(
                "http.answered",
                page=name,
                status=status,
                request_id=asked.request_id,
                caller=asked.caller.name if asked.caller else "",
                ms=round(took_s * 1000, 1),
            )
            return answer

        return endpoint

    async def _answered(self, page: Page, asked: HttpCall) -> Response:
        try:
            answer = await page(asked)
        except NotAuthenticated as error:
            log.info("http.not_authenticated", reason=error.reason, address=asked.address)
            challenge = {"WWW-Authenticate": error.challenge}
            answer = Problem(problems.NOT_AUTHENTICATED, headers=challenge)
        except (RedisUnavailable, NotAvailable, ClientClosed) as error:
            log.warning("http.unavailable", reason=str(error))
            answer = Problem(problems.UNAVAILABLE)
        except asyncio.CancelledError:
            self._door.was_cut = True
            raise
        except ClientDisconnect:
            answer = HttpAnswer(400)
        except Exception as error:  # its text may quote a payload
            log.raised("http.failed", error)
            answer = Problem(problems.INTERNAL)
        return answer if isinstance(answer, Response) else response_of(answer)

    async def _submit(self, asked: HttpCall) -> HttpAnswer | Problem:
        caller = await self._caller(asked)
        if (refused := self._too_many(self._submits, asked, caller)) is not None:
            return refused
        topic = asked.request.path_params["topic"]
        if (refused := self._door.offer.entry(topic, caller, asked.headers)) is not None:
            return refused
        body = await self._body(asked.request)
        if isinstance(body, Problem):
            return body
        order = self._door.offer.order_of(topic, caller, asked.headers, body, prefix=asked.prefix)
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

    async def _events(self, asked: HttpCall) -> Response | HttpAnswer | Problem:
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
        return EventStream(stream, self._metrics)

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

    async def _openapi(
        self, described: Mapping[str, object], asked: HttpCall
    ) -> HttpAnswer | Problem:
        # It names the topics and their schemas, which are no stranger's business.
        caller = await self._caller(asked)
        if (refused := self._too_many(self._reads, asked, caller)) is not None:
            return refused
        servers = [{"url": asked.prefix or "/"}]
        body = json.dumps({**described, "servers": servers}).encode()
        return HttpAnswer(200, body, DESCRIBED)

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
        asked.caller = await recognise(self._authentication, asked.headers, asked.address)
        return asked.caller

    def _too_many(
        self, limit: RateLimit, asked: HttpCall, caller: Caller | None, counted: str = ""
    ) -> Problem | None:
        name = counted or (caller.name if caller else "") or asked.address
        wait_s = limit.take(name, now_s=monotonic_s())
        if not wait_s:
            return None
        return Problem(problems.TOO_MANY, headers={"Retry-After": str(ceil(wait_s))})

    async def _body(self, request: Request) -> bytes | Problem:
        body = bytearray()
        try:
            async with asyncio.timeout(self._section.body_timeout_s):
                async for part in request.stream():
                    body += part
                    if len(body) > self._door.offer.max_body_bytes:
                        return self._door.offer.too_large()
        except TimeoutError:
            return Problem(problems.TOO_SLOW, headers={"Connection": "close"})
        return bytes(body)


class EventStream(Response):
    """Sends a stream as one task: Starlette's own takes a second one to see the browser leave.

    Here that is seen at the next part, a heartbeat later at most.
    """

    def __init__(self, stream: AsyncGenerator[bytes], metrics: DoorMetrics) -> None:
        super().__init__(media_type="text/event-stream", headers=STREAMED)
        del self.headers["Content-Length"]
        self._stream = stream
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it until it has ended, or the browser has left."""
        request = Request(scope, receive)
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        with self._metrics.streams.track_inprogress():
            async with aclosing(self._stream) as stream:
                async for part in stream:
                    if await request.is_disconnected():
                        return
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def response_of(answer: HttpAnswer | Problem) -> Response:
    """Return an answer as Starlette sends it."""
    one = answer.answer() if isinstance(answer, Problem) else answer
    return Response(one.body, one.status, dict(one.headers))


def routes(
    client: AsyncClient, authentication: Authentication, metrics: DoorMetrics | None = None
) -> list[BaseRoute]:
    """Return the routes of the front door, for a Starlette or FastAPI application that exists.

    It enters the client in its lifespan: `async with client:`.
    """
    return Pages(FrontDoor(client), authentication, metrics or DoorMetrics()).routes()


def app(door: FrontDoor, pages: Pages, metrics: DoorMetrics) -> Starlette:
    """Return the front door as an application of its own, with its probes and metrics."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with door.client:
            yield

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def ready(_: Request) -> Response:
        try:
            await door.client.status("-")
        except (RedisUnavailable, ClientClosed) as error:
            return PlainTextResponse(f"{error}\n", 503)
        is_ready = not door.is_draining
        return PlainTextResponse("ready\n") if is_ready else PlainTextResponse("draining\n", 503)

    async def scrape(_: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    probes = (Route("/live", live), Route("/ready", ready), Route("/metrics", scrape))
    origins = door.client.settings.http.cors_origins
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=FROM_PAGES,
        expose_headers=SHOWN_TO_PAGES,
    )
    return Starlette(
        routes=pages.routes(*probes),
        middleware=[cors] if origins else [],
        exception_handlers={HTTPException: _no_such},
        lifespan=lifespan,
    )


async def _browser_module(_: Request) -> Response:
    return response_of(BROWSER_MODULE)


async def _no_such(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_method = error.status_code == problems.NO_SUCH_METHOD.status
    kind = problems.NO_SUCH_METHOD if is_method else problems.NO_SUCH_PAGE
    return response_of(Problem(kind, headers=error.headers or {}))
