"""Handlers that answer what `noted_lifespans` has yielded."""

import asyncio
from typing import Any

from consumer.handlers.decorator import handler
from consumer.handlers.request import Request
from tests.consumer.pool.noted_lifespans import engine, session


@handler(topic="plain")
def plain(request: Request) -> Any:
    return engine.value


@handler(topic="on-loop")
async def on_loop(request: Request) -> Any:
    return session.value is asyncio.get_running_loop()
