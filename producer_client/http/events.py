"""The event stream of a request: its status first, then each change, until it has ended.

All streams of a process share the client's one subscription in Redis. An event's id is the entity
tag of its status, so a browser that connects again is told only of a change.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from feedback.statuses import Status
from producer_client.http.door import document_of, etag_of
from producer_client.http.front_door import FrontDoor

RETRY_MS = 1000
# Browsers of a process that ends come back one after the other.
DRAINED_MS = 3000
HEARTBEAT = b":\n\n"


async def events(
    door: FrontDoor, request_id: str, *, last_event_id: str, heartbeat_s: float, prefix: str = ""
) -> AsyncGenerator[bytes]:
    """Yield the stream; a comment where nothing has changed for so long.

    Args:
        last_event_id: the event that the browser has; empty for none.
        prefix: the pages are below this path.
    """
    yield f"retry: {RETRY_MS}\n\n".encode()
    last = last_event_id
    async with aclosing(door.client.changes(request_id, every_s=heartbeat_s)) as changes:
        async for status in changes:
            if door.is_draining:
                yield f"retry: {random.randint(RETRY_MS, DRAINED_MS)}\n\n".encode()
                return
            if status is None or etag_of(status) == last:
                yield HEARTBEAT
                continue
            last = etag_of(status)
            yield event_of(status, last, prefix)
            if status.state.is_final:
                return


def has_ended(status: Status, last_event_id: str) -> bool:
    """Whether the browser has the last event already."""
    return status.state.is_final and etag_of(status) == last_event_id


def event_of(status: Status, etag: str, prefix: str) -> bytes:
    """Return the event of a status."""
    document = json.dumps(document_of(status, prefix=prefix))
    return f"id: {etag}\nevent: status\ndata: {document}\n\n".encode()
