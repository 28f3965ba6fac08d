"""Watches a request that others send again, for `onceward-client wait --no-resend`."""

from __future__ import annotations

from typing import Protocol

from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable, WaitTimeout
from feedback.status import State
from feedback.statuses import Status
from producer_client.client.wait_rules import seconds_left

LOOK_S = 1.0


class WatchingClient(Protocol):
    """Waits for the end of a request."""

    def wait(self, request: str, *, timeout_s: float | None, resend: bool) -> Status: ...


def watch(
    client: WatchingClient, request_id: str, *, timeout_s: float | None, lost_s: float
) -> Status:
    """Return the final status, without sending the request again.

    Args:
        timeout_s: None waits for as long as somebody may still run it.
        lost_s: a request that is LOST for so long is sent again by nobody.

    Raises:
        WaitTimeout: nothing final was seen in time, or it stays LOST.
        RedisUnavailable: Redis was away at the end of the time.
    """
    began_s, lost_since_s = monotonic_s(), float("inf")
    while True:
        left_s = seconds_left(began_s, timeout_s, now_s=monotonic_s())
        is_last = left_s is not None and left_s <= LOOK_S
        try:
            return client.wait(request_id, timeout_s=left_s if is_last else LOOK_S, resend=False)
        except WaitTimeout as error:
            now_s = monotonic_s()
            is_lost = error.state == State.LOST
            lost_since_s = min(lost_since_s, now_s) if is_lost else float("inf")
            if is_last or now_s - lost_since_s >= lost_s:
                raise WaitTimeout(request_id, error.state, now_s - began_s) from None
        except RedisUnavailable:
            if is_last:
                raise
            lost_since_s = float("inf")
