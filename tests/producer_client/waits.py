"""Waits that end in vain, for tests: also on a machine that stands still for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from feedback.errors import RedisUnavailable, WaitTimeout
from feedback.statuses import Status
from tests.eventually import eventually

LIMIT_S = 60.0


def ends_in_vain(wait: Callable[..., Status], *, timeout_s: float) -> WaitTimeout:
    """Return the error of a wait without an end.

    In a short time Redis does not answer a process that stands still, and the wait says so: another
    one follows.

    Args:
        wait: takes its `timeout_s`.
        timeout_s: how long each wait may take.
    """

    def ended() -> WaitTimeout | None:
        try:
            wait(timeout_s=timeout_s)
        except WaitTimeout as error:
            return error
        except RedisUnavailable:
            return None
        pytest.fail("it has an end")

    found = eventually(ended, timeout_s=LIMIT_S)
    assert found is not None
    return found


async def ends_in_vain_async(wait: Callable[..., Awaitable[Status]], *, timeout_s: float) -> None:
    """Wait without an end, see `ends_in_vain`."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await wait(timeout_s=timeout_s)
            except WaitTimeout:
                return
            except RedisUnavailable:
                continue
            pytest.fail("it has an end")
