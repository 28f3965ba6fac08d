"""The event that an alert is made of."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class AlertKind(StrEnum):
    """The reason of an alert to the owner of a topic."""

    FIRST = "first"  # a failure of a code that was not seen for a day
    RATE = "rate"  # more dead letters a minute than is usual
    AGE = "age"  # a dead letter has waited for long
    HINDERED = "hindered"  # dead letters cannot be written
    PAUSED = "paused"  # the topic was paused


class Event(NamedTuple):
    """One thing that has happened.

    Attributes:
        at_ms: epoch ms.
        requests: how many it is about.
        code: why they failed.
        request_id: one of them.
        detail: one line of unchecked text.
        by: the person who did it.
        level: how many in a minute, or for how many seconds, by the kind.
        is_more: nothing by itself, but counted where an alert of its kind and code waits.
    """

    kind: AlertKind
    topic: str
    at_ms: int
    requests: int = 1
    code: str = ""
    request_id: str = ""
    detail: str = ""
    by: str = ""
    level: float = 0.0
    is_more: bool = False
