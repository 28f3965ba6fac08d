"""When failures are an outage, and when it is over. Pure but for its own state.

The last runs of each topic are remembered. When more than a share of them failed the same way, the
topic is paused: requests that wait in Kafka cost nothing, but a person has to repair dead letters.
From then on one request after the other is let through, after 1, 2, 4 seconds and then every 4,
until one succeeds.

A run that began before the pause neither lengthens nor ends it. A probe that is rejected for its
own reasons, or turns out to be no run at all, says nothing: the next one goes at once. The
remembered runs stay: where a lucky success opens a topic too early, a first failure closes it
again.

Two runs fail the same way with the same code and, where the code only says that something was
raised, the same class of error. A failure that is the request's own fault (a final `Rejected`)
proves nothing about the counterparty.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from consumer.handlers.declaration import Handler
from consumer.handlers.error_classes import is_retryable_code
from consumer.journal import Finish
from consumer.loop.mapping import CHILD_DIED, TIMEOUT
from consumer.loop.settlement import Settlement
from consumer.pool.outcome import (
    HANDLER_ERROR,
    JOURNAL_UNAVAILABLE,
    QUERY_UNKNOWN,
    RaisedError,
)
from feedback.doubling import doubled
from feedback.status import State

_CODE_LIMIT = 64
# Codes that no handler has chosen.
_OURS = (HANDLER_ERROR, TIMEOUT, CHILD_DIED, QUERY_UNKNOWN)


class FailureKind(NamedTuple):
    """The evidence of an ended run about the counterparty.

    Attributes:
        code: stable; empty when the run did its work.
        error_class: its last name, where it is known.
    """

    code: str = ""
    error_class: str = ""

    def __str__(self) -> str:
        return f"{self.code} {self.error_class}".rstrip()


FINE = FailureKind()


def failure_kind_of(one: Settlement) -> FailureKind | None:
    """Return how a run ended; None when that says nothing about the handler's counterparty."""
    finish = one.finish
    if finish is None:
        return (
            None if one.follows is None else FailureKind(one.follows.takeover.because[:_CODE_LIMIT])
        )
    if finish.state == State.SKIPPED:
        return None  # no counterparty was called
    if finish.state not in (State.FAILED, State.RETRYING, State.IN_DOUBT):
        return FINE
    code = finish.code or str(finish.state)
    if code == JOURNAL_UNAVAILABLE or _is_its_own(finish, code, one.delivery.handler):
        return None
    return FailureKind(code[:_CODE_LIMIT], _class(code, finish.message, one.raised))


def _is_its_own(finish: Finish, code: str, handler: Handler) -> bool:
    is_final = finish.state == State.FAILED and not finish.resend
    return is_final and code not in _OURS and not is_retryable_code(code, handler)


def _class(code: str, message: str | None, raised: RaisedError | None) -> str:
    if code != HANDLER_ERROR:
        return ""
    if raised is not None:
        return raised.error_class.rpartition(".")[2]
    # In doubt, only the one line is stored: `Class: text`.
    head = (message or "").partition(":")[0]
    return head if head.isidentifier() else ""


FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 4.0
AT_ONCE_S = 0.1


class BreakerChange(StrEnum):
    """The change that an ended run has made."""

    PAUSED = "paused"
    RESUMED = "resumed"


@dataclass(slots=True)
class TopicOutage:
    """A topic that is paused.

    Attributes:
        probe_s: monotonic time from which the next request may be let through.
        probes: ids of those that were let through and have not ended.
    """

    way: FailureKind
    since_s: float
    probe_s: float
    probes: set[str] = field(default_factory=set)
    tried: int = 0


class _Runs:
    """The last runs of one topic."""

    def __init__(self, window: int) -> None:
        self._ways: deque[FailureKind] = deque(maxlen=window)
        self._counts: Counter[FailureKind] = Counter()

    def add(self, way: FailureKind) -> int:
        """Add a run; return how many of the remembered ones ended like it."""
        if len(self._ways) == self._ways.maxlen:
            oldest = self._ways[0]
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        self._ways.append(way)
        self._counts[way] += 1
        return self._counts[way]


class CircuitBreaker:
    """Judges ended runs. Belongs to one thread.

    Args:
        share: of the window; when more failed the same way, it is an outage. 0: nothing ever is.
        window: how many of the last runs of a topic count; so many have to be possible, so a topic
            with fewer runs is judged as if the others had succeeded.
        probes: how many requests may be let through at once, where one takes longer than the pause.
    """

    def __init__(self, *, share: float, window: int, probes: int) -> None:
        self._is_on = share > 0
        self._most = share * window
        self._window = window
        self._probes = probes
        self._runs: dict[str, _Runs] = {}
        self.outages: dict[str, TopicOutage] = {}

    def ended(
        self, topic: str, request_id: str, way: FailureKind | None, now_s: float
    ) -> BreakerChange | None:
        """Take in the end of a run."""
        if not self._is_on:
            return None
        outage = self.outages.get(topic)
        if outage is not None:
            return self._ended_meanwhile(topic, outage, request_id, way, now_s)
        if way is None:
            return None
        if self._kept(topic).add(way) <= self._most or way == FINE:
            return None
        self.outages[topic] = TopicOutage(way, now_s, now_s + FIRST_PAUSE_S)
        return BreakerChange.PAUSED

    def _ended_meanwhile(
        self,
        topic: str,
        outage: TopicOutage,
        request_id: str,
        way: FailureKind | None,
        now_s: float,
    ) -> BreakerChange | None:
        if request_id not in outage.probes:
            return None
        outage.probes.discard(request_id)
        if way is None:
            outage.probe_s = min(outage.probe_s, now_s + AT_ONCE_S)
            return None
        if way != FINE:
            return None
        del self.outages[topic]
        return BreakerChange.RESUMED

    def may_probe(self, topic: str, now_s: float) -> bool:
        """Whether a request of this paused topic may be let through now."""
        outage = self.outages.get(topic)
        return outage is not None and now_s >= outage.probe_s and len(outage.probes) < self._probes

    def probes(self, topic: str, request_id: str, now_s: float) -> None:
        """Note that this request was let through."""
        outage = self.outages[topic]
        outage.probes.add(request_id)
        outage.tried += 1
        # The first pause was before the first of them.
        outage.probe_s = now_s + doubled(FIRST_PAUSE_S, LONGEST_PAUSE_S, 1 + outage.tried)

    def lost(self, topic: str, request_id: str, now_s: float) -> None:
        """Note that a probe is nowhere any more, and did not run."""
        outage = self.outages.get(topic)
        if outage is not None and request_id in outage.probes:
            outage.probes.discard(request_id)
            outage.probe_s = min(outage.probe_s, now_s + AT_ONCE_S)

    def next_probe_s(self) -> float | None:
        """Return the monotonic time from which the next request may be let through."""
        times = (one.probe_s for one in self.outages.values() if len(one.probes) < self._probes)
        return min(times, default=None)

    def _kept(self, topic: str) -> _Runs:
        runs = self._runs.get(topic)
        if runs is None:
            runs = self._runs[topic] = _Runs(self._window)
        return runs
