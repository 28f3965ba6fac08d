"""The client for asyncio behind the calls of the other one: a loop in a thread runs it.

So that the tests of one client are those of both.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import Settings
from feedback.statuses import Status
from producer_client import AsyncClient, AsyncHandle, SendResult

T = TypeVar("T")


class BlockingClient:
    """An `AsyncClient` with the calls of `Client`."""

    def __init__(self, settings: Settings, **given: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop-of-the-test")
        self._thread.start()
        self._client = AsyncClient(settings, **given)
        self.settings = settings
        self.store = BlockingStore(self)

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def close(self) -> None:
        """Close the client; its loop goes on, for calls that must now be refused."""
        if self._thread.is_alive():
            self.run(self._client.aclose())

    def end(self) -> None:
        """Close the client and its loop."""
        if self._thread.is_alive():
            self.close()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a call of the client gives."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(60)

    def send(self, value: Any, **given: Any) -> BlockingHandle:
        """Send one request."""
        return BlockingHandle(self, self.run(self._client.send(value, **given)))

    def send_many(self, submissions: Iterable[Any], **given: Any) -> Iterator[SendResult]:
        """Send many requests."""
        return self._each(self._client.send_many(submissions, **given))

    def resend(self, request_id: str, payload: StoredPayload, **given: Any) -> None:
        """Send a request again."""
        self.run(self._client.resend(request_id, payload, **given))

    def status(self, request_id: str) -> Status:
        """Return what is known of a request."""
        return self.run(self._client.status(request_id))

    def wait(self, request: Any, **given: Any) -> Status:
        """Wait for the end of a request."""
        if isinstance(request, str):
            return self.run(self._client.wait(request, **given))
        return self.run(self._client.wait(request, **given))

    def wait_many(self, request_ids: Iterable[str], **given: Any) -> Iterator[Status]:
        """Wait for the ends of many."""
        return self._each(self._client.wait_many(request_ids, **given))

    def _each(self, found: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> list[T]:
            try:
                return [await anext(found)]
            except StopAsyncIteration:
                return []

        def one_by_one() -> Iterator[T]:
            while some := self.run(following()):
                yield from some

        return one_by_one()


class BlockingHandle:
    """An `AsyncHandle` with the calls of `Handle`."""

    def __init__(self, client: BlockingClient, handle: AsyncHandle) -> None:
        self._client = client
        self._handle = handle
        self.request_id = handle.request_id
        self.payload = handle.payload
        self.deadline_at = handle.deadline_at
        self.attempt = handle.attempt
        self.reopens = handle.reopens
        self.written_at = handle.written_at

    def status(self) -> Status:
        """Return what is known of the request."""
        return self._client.run(self._handle.status())

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait for its end."""
        return self._client.run(self._handle.wait(timeout_s))


class BlockingStore:
    """The reading part of the store of an `AsyncClient`."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def read_many(self, request_ids: list[str]) -> list[Status]:
        """Return statuses."""
        return self._client.run(self._client._client.store.read_many(request_ids))
