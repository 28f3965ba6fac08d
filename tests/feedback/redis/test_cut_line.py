"""Nothing was sent where the store says so, at whichever byte the line to Redis is cut."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from feedback.errors import RedisUnavailable
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.sections import RedisSection
from feedback.status import State
from onceward.servers.ports import HOST
from tests.feedback.cut_line import cut_line
from tests.feedback.samples import PAYLOAD, a_write
from tests.stack import Servers

STEP = 23
# More than the greeting and one write need.
MOST_BYTES = 1_500


def _written(settings: RedisSection, group: str, *, by_asyncio: bool) -> str:
    """Write a status; return the word for how that ended."""
    pending = a_write(State.PENDING, payload=PAYLOAD)
    try:
        if by_asyncio:
            asyncio.run(_write_by_asyncio(settings, group, pending))
        else:
            with closing(StatusStore(connect(settings), group, settings)) as store:
                store.write([pending], look_at=1)
    except RedisUnavailable as error:
        return "nothing sent" if error.never_reached else "unknown"
    return "written"


async def _write_by_asyncio(settings: RedisSection, group: str, pending: object) -> None:
    calls = AsyncStatusStore(connect_async(settings), group, settings)
    try:
        await calls.write([pending], look_at=1)  # type: ignore[list-item]
    finally:
        await calls.aclose()


@pytest.mark.parametrize("direction", ["sends", "receives"])
@pytest.mark.parametrize("by_asyncio", [False, True], ids=["threads", "asyncio"])
def test_nothing_sent_is_only_said_where_redis_has_nothing(
    servers: Servers, direction: str, by_asyncio: bool
) -> None:
    direct = RedisSection(url=servers.redis)
    port = urlsplit(servers.redis).port or 0
    said: Counter[str] = Counter()
    group = f"cut-{uuid.uuid4().hex}"
    with closing(StatusStore(connect(direct), group, direct)) as store:
        for most in range(0, MOST_BYTES, STEP):
            with cut_line(port, **{direction: most}) as at:
                through = RedisSection(url=f"redis://{HOST}:{at}/0", timeout_s=2.0)
                word = _written(through, group, by_asyncio=by_asyncio)
            stands = store.read("r").state
            said[word] += 1
            if word == "nothing sent":
                assert stands is State.UNKNOWN, most
            if word == "written":
                assert stands is State.PENDING, most
            store.redis.delete(store.request_key("r"), store.payload_key("r"))
    # Both happen on the way, and it gets through at the end.
    assert min(said["nothing sent"], said["unknown"] + said["written"]) > 0, said
    assert said["unknown"] > 0 or direction == "receives", said
