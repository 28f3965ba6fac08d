"""Pages that stay up to date: asked for server-sent events, an address sends its content anew.

A stream is a look again and again, with the same rules: each time the person is recognised anew.
Whoever may not look any more hears that the stream is over. All streams look at the same moments,
so that pages can share a reading. They look in `THREADS` threads of their own: where a server is
slow, they wait for each other, and a page that a person opens for none of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from feedback.clock import monotonic_s
from feedback.errors import OncewardError

EVENTS = "text/event-stream"
EVERY_S = 3.0
# Each reads once in `EVERY_S`, and holds a connection.
MOST_STREAMS = 50
# One person takes no place that others need. A browser opens six of a host.
MOST_OF_ONE = 12
THREADS = 8
HEADERS = {"Content-Type": f"{EVENTS}; charset=utf-8", "X-Accel-Buffering": "no"}

ContentReader = Callable[[], "str | None"]


def asks_for_events(request: Request) -> bool:
    """Whether it is a script of a page that asks, and not a person."""
    return request.method == "GET" and EVENTS in request.headers.get("accept", "")


class LiveStreams:
    """The open streams of a console. Belongs to its loop, but for `of`, which any thread may call.

    Args:
        ending: set when the process is to end.
    """

    def __init__(self, ending: asyncio.Event) -> None:
        self._ending = ending
        self._open: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onceward-streams")

    def of(self, look: ContentReader, *, whose: str = "") -> Response:
        """Return the stream of a page, which says at once where as many are open, or just left.

        Args:
            look: returns the content of the page, or None when the person may not look any more;
                any thread may call it.
            whose: the name of the person; empty where nobody is asked, and all share the places.
        """
        return _PageStream(self._parts(look, whose))

    def close(self) -> None:
        """Begin no further look; do not wait for those at work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _parts(self, look: ContentReader, whose: str) -> AsyncGenerator[bytes]:
        # Here, in the loop, no other takes the last place meanwhile.
        if full := self._full_for(whose):
            # As an event: of an answer that is none a browser tells its page nothing.
            yield _event("full", full)
            return
        self._open[whose] += 1
        try:
            # A browser asks again by itself where only the process has ended.
            while not await self._ends_within(_until_next_s(monotonic_s())):
                loop = asyncio.get_running_loop()
                part = await loop.run_in_executor(self._threads, _part, look)
                if part is None:
                    yield b"event: over\ndata:\n\n"
                    return
                yield part
        finally:
            # Names without a stream are forgotten.
            self._open -= Counter([whose])

    def _full_for(self, whose: str) -> str:
        if self._open.total() >= MOST_STREAMS:
            return f"{MOST_STREAMS} pages, as many as may be, are kept up to date already"
        if whose and self._open[whose] >= MOST_OF_ONE:
            # One that was left counts until its next part.
            return f"{MOST_OF_ONE} pages of {whose} are open, or were just left"
        return ""

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._ending.wait()
        except TimeoutError:
            return False


def _until_next_s(now_s: float) -> float:
    """Return how long it is until the next moment, which is not within half of `EVERY_S`. Pure.

    A timer may end a little early: the moment that it was for is not another one.

    >>> [_until_next_s(now_s) for now_s in (30.0, 31.0, 32.0, 32.75, 33.25)]
    [3.0, 2.0, 4.0, 3.25, 2.75]
    """
    return (round(now_s / EVERY_S) + 1) * EVERY_S - now_s


def _part(look: ContentReader) -> bytes | None:
    try:
        content = look()
    except (OncewardError, HTTPException) as error:
        # The page stays as it was, and says so; the next look may go well.
        said = error.detail if isinstance(error, HTTPException) else str(error)
        return _event("fault", said)
    return None if content is None else _event("content", content)


def _event(name: str, text: str) -> bytes:
    # As JSON it is one line, whatever is in it.
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode()


class _PageStream(Response):
    """Sends the parts until they end, or the browser has left: seen at the next part."""

    def __init__(self, parts: AsyncGenerator[bytes]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["Content-Length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        async with aclosing(self._parts) as parts:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for part in parts:
                if await request.is_disconnected():
                    return
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
