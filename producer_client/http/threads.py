"""The pages for a framework of threads: one loop in each process, which all its threads ask.

The loop and its client begin with the first call, since a server may fork before it serves.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry

from feedback.clock import monotonic_s
from feedback.errors import OncewardError
from feedback.logs import EventLog
from feedback.settings.settings import Settings, load
from producer_client.http import problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.callers import Caller, NotAuthenticated
from producer_client.http.door import MAX_DIGITS, TopicOffer
from producer_client.http.front_door import FrontDoor, client_of
from producer_client.http.metrics import DoorMetrics
from producer_client.http.pages import (
    CallerLeft,
    DoorPages,
    HttpCall,
    HttpStream,
    PageAt,
    needs_caller,
)
from producer_client.http.problems import Problem

T = TypeVar("T")

log = EventLog("onceward.http")


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    door: FrontDoor
    pages: DoorPages

    def begin(self, call: Coroutine[object, object, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(call, self.loop)


class PagesForThreads:
    """The pages, for any thread.

    Args:
        settings: as for `Client`.
        registry: see `DoorMetrics`.

    Raises:
        SettingsError, SchemaError: as for `Client`; or a topic's schema cannot be used.
    """

    def __init__(
        self, settings: Settings | Path | str | None, registry: CollectorRegistry | None = None
    ) -> None:
        self._settings = settings if isinstance(settings, Settings) else load(settings)
        most = self._settings.client.max_request_bytes
        self._body_bytes = TopicOffer(self._settings.http, max_request_bytes=most).max_body_bytes
        # So long a stream holds a thread.
        self.stream_s = self._settings.http.max_wait_s
        self._metrics = DoorMetrics(registry)
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._inherited: _Running | None = None
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Begin anew in a child: the loop has no thread here, and a thread may have had the lock.

        The parent's stays referenced: to drop its connections would end them for the parent too.
        """
        self._lock = threading.Lock()
        self._inherited, self._running = self._running or self._inherited, None

    def answer(
        self,
        at: PageAt,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        path: Mapping[str, str],
        full_path: str,
        address: str,
        caller_of: Callable[[], Caller],
        read: Callable[[int], bytes],
    ) -> HttpAnswer | ThreadStream:
        """Return a page's answer.

        Args:
            path: the parts of it that have a name.
            full_path: the path, with that of the application in front.
            caller_of, read: called here, in the request's own thread.
        """
        named = {name.lower(): value for name, value in headers.items()}
        most = self._body_bytes + 1
        taken = _taken(read, most) if at.method == "POST" else b""
        is_whole = _is_whole(taken, named, most)

        async def body(_: int) -> bytes:
            if not is_whole:
                raise CallerLeft
            return taken

        call = HttpCall(
            headers=named,
            query=query,
            path=path,
            prefix=full_path.removesuffix(at.path.format(**path)),
            address=address,
            recognise=_recognised(caller_of) if needs_caller(at, query) else _nobody,
            body=body,
        )
        try:
            running = self._begun()
        except OncewardError as error:
            log.error("http.not_begun", reason=str(error))
            return Problem(problems.UNAVAILABLE).answer()
        answer = running.begin(running.pages.answered(at, call)).result()
        return ThreadStream(running, answer) if isinstance(answer, HttpStream) else answer

    def close(self) -> None:
        """End waits and streams, finish the sends, and return."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        running.loop.call_soon_threadsafe(running.door.drain)
        running.begin(_ended(running.door)).result()
        running.loop.call_soon_threadsafe(running.loop.stop)
        running.thread.join()
        running.loop.close()
        atexit.unregister(self.close)

    def _begun(self) -> _Running:
        with self._lock:
            if self._running is None:
                self._running = self._begin()
                atexit.register(self.close)
            return self._running

    def _begin(self) -> _Running:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="onceward-door", daemon=True)
        thread.start()

        async def made() -> tuple[FrontDoor, DoorPages]:
            door = FrontDoor(client_of(self._settings))
            return door, DoorPages(door, self._metrics)

        try:
            door, pages = asyncio.run_coroutine_threadsafe(made(), loop).result()
        except OncewardError:
            # The next request tries again: a loop for each of them would fill the process.
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            raise
        return _Running(loop, thread, door, pages)


async def _ended(door: FrontDoor) -> None:
    await door.client.aclose()
    # Threads wait for these: each is answered that it was cut.
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for one in rest:
        one.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _taken(read: Callable[[int], bytes], most: int) -> bytes:
    taken = b""
    while len(taken) < most and (part := read(most - len(taken))):
        taken += part
    return taken


def _is_whole(taken: bytes, headers: Mapping[str, str], most: int) -> bool:
    """Whether a body is as long as its sender said, or longer than the limit.

    WSGI tells nobody that a connection ended in the middle of a body. A framework may hand over no
    byte of a body of unknown length, or of one that the application has read before.
    """
    length = headers.get("content-length", "")
    if length.isdecimal():
        return len(taken) >= (most if len(length) > MAX_DIGITS else min(int(length), most))
    return bool(taken) or "transfer-encoding" not in headers


async def _nobody(_: HttpCall) -> Caller:
    raise NotAuthenticated("this page asks for no caller")


def _recognised(
    caller_of: Callable[[], Caller],
) -> Callable[[HttpCall], Coroutine[None, None, Caller]]:
    # The bearer of a read token is no caller: a refusal waits until somebody asks for it.
    found: Caller | OncewardError
    try:
        found = caller_of()
    except OncewardError as error:
        found = error

    async def recognise(asked: HttpCall) -> Caller:
        if isinstance(found, OncewardError):
            raise found
        return found

    return recognise


class ThreadStream:
    """The parts of an event stream, for one thread or for another loop."""

    def __init__(self, running: _Running, stream: HttpStream) -> None:
        self._running = running
        self._parts = stream.parts
        self._streams = running.pages.metrics.streams

    def for_thread(self, *, most_s: float) -> Iterator[bytes]:
        """Yield them. A browser comes back for the rest: so none holds a thread for long.

        Args:
            most_s: the stream ends with the first part after so long.
        """
        ends_s = monotonic_s() + most_s
        try:
            with self._streams.track_inprogress():
                while monotonic_s() < ends_s and (part := self._next().result()):
                    yield part
        finally:
            self._running.begin(self._parts.aclose())

    async def for_loop(self) -> AsyncIterator[bytes]:
        """Yield them to a loop, until they end."""
        try:
            with self._streams.track_inprogress():
                while part := await asyncio.wrap_future(self._next()):
                    yield part
        finally:
            self._running.begin(self._parts.aclose())

    def _next(self) -> Future[bytes]:
        async def step() -> bytes:
            return await anext(self._parts, b"")

        return self._running.begin(step())
