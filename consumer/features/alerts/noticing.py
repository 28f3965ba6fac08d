"""Which failures are news: the first of a kind, and too many in a minute. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from consumer.features.alerts.event import AlertKind, Event

FORGOTTEN_AFTER_S = 86_400.0
# Handlers choose their codes: one that puts an id into them must not fill the memory.
REMEMBERED = 1000
MINUTE_S = 60.0


class FailureBurst(NamedTuple):
    """Requests of one topic that failed with one code, some at a time.

    Attributes:
        request_id, message: of one of them.
    """

    topic: str
    code: str
    requests: int
    request_id: str
    message: str


class Noticing:
    """Knows the kinds of failure seen so far. Belongs to one thread at a time.

    Args:
        rate_per_minute: how many dead letters of a topic are usual in a minute; 0: any number.
    """

    def __init__(self, rate_per_minute: int) -> None:
        self._limit = rate_per_minute
        self._seen: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._minutes: dict[str, deque[tuple[float, int]]] = {}

    def events(
        self, failures: Sequence[FailureBurst], *, now_s: float, now_ms: int
    ) -> Iterator[Event]:
        """Yield the events to report about these.

        Args:
            now_s: monotonic now. now_ms: epoch now.
        """
        for one in failures:
            is_known = self._is_known(one, now_s)
            event = Event(
                AlertKind.FIRST, one.topic, now_ms, one.requests, one.code, one.request_id
            )
            yield event._replace(detail=one.message, is_more=is_known)
        for topic in dict.fromkeys(one.topic for one in failures):
            of_topic = [one for one in failures if one.topic == topic]
            in_minute = self._in_minute(topic, sum(one.requests for one in of_topic), now_s)
            if not 0 < self._limit < in_minute:
                continue
            for one in of_topic:
                event = Event(AlertKind.RATE, topic, now_ms, one.requests, one.code, one.request_id)
                yield event._replace(level=in_minute)

    def _is_known(self, one: FailureBurst, now_s: float) -> bool:
        kind = (one.topic, one.code)
        seen_s = self._seen.pop(kind, None)
        self._seen[kind] = now_s
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return seen_s is not None and now_s - seen_s < FORGOTTEN_AFTER_S

    def _in_minute(self, topic: str, count: int, now_s: float) -> int:
        """Return how many there were within the last minute, with these; to a second."""
        seconds = self._minutes.setdefault(topic, deque())
        if seconds and now_s - seconds[-1][0] < 1.0:
            seconds[-1] = (seconds[-1][0], seconds[-1][1] + count)
        else:
            seconds.append((now_s, count))
        while seconds[0][0] <= now_s - MINUTE_S:
            seconds.popleft()
        return sum(number for _, number in seconds)
