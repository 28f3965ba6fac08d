"""The clients that users hold, for threads and for asyncio, and their waits.

- `client`: the user's `Client` and `Handle`; `async_client`: the same for asyncio.
- `waiter` follows requests to their end, with `timed_reads`; `async_waiter` does so from a task.
- `wait_rules`: decides when a wait resends, and when it is over; pure.
- `watching` waits for requests that others send again.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from producer_client.client.async_client import AsyncClient, AsyncHandle
    from producer_client.client.client import Client, Handle
else:
    from feedback.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "producer_client.client.async_client": ("AsyncClient", "AsyncHandle"),
            "producer_client.client.client": ("Client", "Handle"),
        },
    )

__all__ = ["AsyncClient", "AsyncHandle", "Client", "Handle"]
