"""The front door as a Starlette application, and as routes for one that exists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from producer_client.client.async_client import AsyncClient
from producer_client.http import problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.callers import Authentication, Caller, recognise
from producer_client.http.front_door import FrontDoor
from producer_client.http.metrics import DoorMetrics
from producer_client.http.pages import (
    PAGES,
    STREAMED,
    CallerLeft,
    DoorPages,
    HttpCall,
    HttpStream,
    PageAt,
)
from producer_client.http.problems import Problem

SHOWN_TO_PAGES = ("ETag", "Idempotent-Replayed", "Location", "Retry-After", "Warning")
FROM_PAGES = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match",
    "Last-Event-ID", "Onceward-Key", "Prefer",
)  # fmt: skip

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(
    client: AsyncClient, authentication: Authentication, registry: CollectorRegistry | None = None
) -> list[BaseRoute]:
    """Return the routes of the front door, for a Starlette or FastAPI application that exists.

    It enters the client in its lifespan: `async with client:`.

    Args:
        registry: the application's metrics of Prometheus, to which the front door's are added.
    """
    return routes_of(DoorPages(FrontDoor(client), DoorMetrics(registry)), authentication)


def routes_of(pages: DoorPages, authentication: Authentication) -> list[BaseRoute]:
    """Return the routes of these pages.

    Args:
        authentication: recognises callers.
    """

    async def recognised(asked: HttpCall) -> Caller:
        return await recognise(authentication, asked.headers, asked.address)

    def endpoint(at: PageAt) -> Endpoint:
        async def answer(request: Request) -> Response:
            answer = await pages.answered(at, _call_of(request, recognised))
            if isinstance(answer, HttpStream):
                return EventStream(answer, pages.metrics)
            return response_of(answer)

        return answer

    return [Route(at.path, endpoint(at), methods=[at.method]) for at in PAGES]


def _call_of(request: Request, recognised: Callable[[HttpCall], Awaitable[Caller]]) -> HttpCall:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        before = headers.get(name)
        headers[name] = value if before is None else f"{before}\n{value}"

    async def body(most: int) -> bytes:
        taken = bytearray()
        try:
            async for part in request.stream():
                taken += part
                if len(taken) > most:
                    break
        except ClientDisconnect:
            raise CallerLeft from None
        return bytes(taken)

    return HttpCall(
        headers=headers,
        query=request.query_params,
        path=request.path_params,
        prefix=request.scope.get("root_path", ""),
        address=request.client.host if request.client else "",
        recognise=recognised,
        body=body,
    )


class EventStream(Response):
    """Sends a stream as one task: Starlette's own takes a second one to see the browser leave.

    Here that is seen at the next part, a heartbeat later at most.
    """

    def __init__(self, stream: HttpStream, metrics: DoorMetrics) -> None:
        super().__init__(headers=STREAMED)
        del self.headers["Content-Length"]
        self._parts = stream.parts
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it until it has ended, or the browser has left."""
        request = Request(scope, receive)
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        if request.method == "HEAD":
            await self._parts.aclose()
            await send({"type": "http.response.body", "body": b""})
            return
        with self._metrics.streams.track_inprogress():
            async with aclosing(self._parts) as stream:
                async for part in stream:
                    if await request.is_disconnected():
                        return
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def response_of(answer: HttpAnswer) -> Response:
    """Return an answer as Starlette sends it."""
    return Response(answer.body, answer.status, dict(answer.headers))


def app(door: FrontDoor, authentication: Authentication, metrics: DoorMetrics) -> Starlette:
    """Return the front door as an application of its own, with its probes and metrics."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with door.client:
            yield

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def ready(_: Request) -> Response:
        why = await door.why_not_ready()
        return PlainTextResponse(
            "ready\n" if why is None else f"{why}\n", 200 if why is None else 503
        )

    async def scrape(_: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    probes = (Route("/live", live), Route("/ready", ready), Route("/metrics", scrape))
    pages = DoorPages(door, metrics, has_probes=True)
    origins = door.client.settings.http.cors_origins
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=FROM_PAGES,
        expose_headers=SHOWN_TO_PAGES,
    )
    return Starlette(
        routes=[*routes_of(pages, authentication), *probes],
        middleware=[cors] if origins else [],
        exception_handlers={HTTPException: _no_such},
        lifespan=lifespan,
    )


async def _no_such(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_method = error.status_code == problems.NO_SUCH_METHOD.status
    kind = problems.NO_SUCH_METHOD if is_method else problems.NO_SUCH_PAGE
    return response_of(Problem(kind, headers=error.headers or {}).answer())
