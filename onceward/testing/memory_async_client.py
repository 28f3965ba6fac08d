"""A client for asyncio without servers: a `MemoryClient` behind the calls of an `AsyncClient`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from feedback.settings.settings import Settings
from feedback.statuses import Status
from onceward.testing.memory_client import MemoryClient
from producer_client.client.async_client import AsyncClient, AsyncHandle


class MemoryAsyncClient(AsyncClient):
    """An `AsyncClient` whose Kafka and Redis are in this process.

    The test says by `memory` how requests go on; see `MemoryClient`. Given handlers run within the
    calls that wait, and hold the loop meanwhile.

    Args:
        settings, handlers, model, schema: as of `MemoryClient`.

    Attributes:
        memory: the same requests, for the test.

    Raises:
        NotCovered, NotAvailable: as of `MemoryClient`.
    """

    def __init__(
        self,
        settings: Settings | Path | str | None = None,
        *,
        handlers: Iterable[Callable[..., Any]] = (),
        model: type | None = None,
        schema: Path | str | None = None,
    ) -> None:
        super().__init__(settings, model=model, schema=schema)
        self.memory = MemoryClient(self.settings, handlers=handlers, model=model, schema=schema)
        self._way = self.memory.send_flow

    async def __aenter__(self) -> MemoryAsyncClient:
        return self

    async def aclose(self) -> None:
        """Forget all requests, and close for good."""
        await super().aclose()
        self.memory.close()

    async def status(self, request_id: str) -> Status:
        """Return the known status of a request; UNKNOWN when there is none."""
        return self.memory.status(request_id)

    async def wait(
        self, request: AsyncHandle | str, *, timeout_s: float | None = None, resend: bool = True
    ) -> Status:
        """Return the final status; see `MemoryClient.wait`.

        Raises:
            WaitTimeout, PayloadMismatch: as there.
        """
        return self.memory.wait(request, resend=resend)

    async def wait_many(
        self, request_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> AsyncIterator[Status]:
        """Yield the final status of each request.

        Raises:
            WaitTimeout: one of them has no end yet.
        """
        for one in self.memory.wait_many(request_ids):
            yield one
