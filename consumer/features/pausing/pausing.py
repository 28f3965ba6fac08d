"""Which topics are paused, why and since when; which of their requests run all the same.

A topic is paused by this worker's guard (an outage: only here, and until a request succeeds), or
for the whole group: by a person, or by a dead letter where the strategy is to stop. The group's
pauses stand in the journal; `pause_sync` writes and reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from consumer.features.pausing.circuit_breaker import BreakerChange, CircuitBreaker, failure_kind_of
from consumer.features.pausing.paused import GUARD, PausedTopic
from consumer.handlers.delivery import Delivery
from consumer.journal import Row
from consumer.journal.pauses import PauseRow
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.status import State


class PauseListener:
    """Hears nothing. Any thread may call; every method returns at once."""

    def paused(self, topic: str, *, reason: str, by: str) -> None:
        """Hear that this worker has paused a topic.

        Args:
            by: `guard`, or the worker that has stopped the group.
        """


log = EventLog("onceward.pausing")


class Pausing(Feature):
    """Knows the paused topics. Safe to share between threads, but for methods of the loop.

    Args:
        stopping: those of which a dead letter stops the group.
        listeners: hear of the topics that this worker pauses.
    """

    def __init__(
        self,
        *,
        guard: CircuitBreaker,
        topics: Collection[str] = (),
        stopping: Collection[str] = (),
        me: str = "",
        listeners: Sequence[PauseListener] = (),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._guard = guard
        self._topics = frozenset(topics)
        self._stopping = frozenset(stopping)
        self._me = me
        self._listeners = listeners
        self._wake = wake
        self._lock = threading.Lock()
        self._outages: dict[str, PausedTopic] = {}
        self._stops: dict[str, PausedTopic] = {}
        self._group: dict[str, PausedTopic] = {}
        self.closed = frozenset()
        self._hungry: set[str] = set()
        self.news = threading.Event()

    # asked ---------------------------------------------------------------------------------

    @property
    def paused(self) -> list[PausedTopic]:
        """Every pause, one for each topic; the group's before the guard's."""
        with self._lock:
            return sorted({**self._outages, **self._stops, **self._group}.values())

    @property
    def unread(self) -> frozenset[str]:
        """Topics to read nothing of now: the paused ones, except those that need a probe."""
        return self.closed - self._hungry

    def lets(self, topic: str) -> bool:
        """Whether one more request of this topic may come in: of a hungry one, just one."""
        if topic not in self.closed:
            return True
        with self._lock:
            is_wanted = topic in self._hungry
            self._hungry.discard(topic)
        return is_wanted

    # the loop ------------------------------------------------------------------------------

    def ended(self, one: Settlement) -> None:
        """Hear how a run ended: many that failed the same way are an outage."""
        topic, now_s = one.delivery.handler.topic, monotonic_s()
        change = self._guard.ended(topic, one.run[0], failure_kind_of(one), now_s)
        if change is BreakerChange.PAUSED:
            self._begin(topic, str(failure_kind_of(one)))
        elif change is BreakerChange.RESUMED:
            self._end(topic)
        if one.stands and one.is_dead and one.finish is not None:
            self.failed(topic, one.run[0], one.finish.code)

    def failed(self, topic: str, request_id: str, code: str | None) -> None:
        """Hear of a failure that becomes a dead letter; where it is to stop the group, it does."""
        if topic not in self._stopping or topic in self._stops or topic in self._group:
            return
        reason = f"dead letter {code or ''} of {request_id}"
        with self._lock:
            self._stops[topic] = PausedTopic(topic, reason, epoch_ms(), self._me)
            self._note()
        log.error("topic.stopped", topic=topic, code=code, request_id=request_id)
        self._tell(topic, reason, self._me)
        self.news.set()

    def answered(self, row: Row, record: Record) -> None:
        """Hear how a request stands in the journal that this worker has asked about."""
        if row.state == State.FAILED and not row.resend:
            self.failed(row.topic, row.request_id, row.code)

    never_ran = answered

    def probes(
        self,
        now_s: float,
        room: int,
        in_hand: Callable[[], Iterable[Delivery]],
        take: Callable[[str], Delivery | None],
    ) -> list[Delivery]:
        """Return requests of paused topics that are to run, to see how they do now.

        Args:
            room: how many slots are free for them.
            in_hand: the requests that the worker claims or runs.
            take: gives one that waits, of a topic.
        """
        if not self._outages:
            return []
        self._forget_lost(in_hand, now_s)
        probes: list[Delivery] = []
        hungry = set()
        for topic in [one for one in self._outages if self._guard.may_probe(one, now_s)]:
            if len(probes) >= room or topic in self._stops or topic in self._group:
                continue
            one = take(topic)
            if one is None:
                hungry.add(topic)
                continue
            probes.append(one)
            self._guard.probes(topic, one.request_id, now_s)
            log.debug("guard.probes", topic=topic, request_id=one.request_id)
        with self._lock:
            self._hungry = hungry
        return probes

    def next_s(self, now_s: float) -> float | None:
        """Return the monotonic time at which the next request is to be let through.

        None: no topic is paused, or one is due and had no request; then the reader wakes the loop.
        """
        if not self._outages:
            return None
        at_s = self._guard.next_probe_s()
        return None if at_s is None or at_s <= now_s else at_s

    def _forget_lost(self, in_hand: Callable[[], Iterable[Delivery]], now_s: float) -> None:
        probing = {
            (topic, name) for topic, outage in self._guard.outages.items() for name in outage.probes
        }
        if not probing:
            return
        known = {one.request_id for one in in_hand()}
        for topic, name in probing:
            if name not in known:
                self._guard.lost(topic, name, now_s)

    def _begin(self, topic: str, reason: str) -> None:
        with self._lock:
            self._outages[topic] = PausedTopic(topic, reason, epoch_ms(), GUARD)
            self._note()
        log.error("guard.paused", topic=topic, reason=reason)
        self._tell(topic, reason, GUARD)

    def _end(self, topic: str) -> None:
        with self._lock:
            outage = self._outages.pop(topic)
            self._hungry.discard(topic)
            self._note()
        log.info("guard.resumed", topic=topic, after_s=round((epoch_ms() - outage.since) / 1000, 3))

    def _tell(self, topic: str, reason: str, by: str) -> None:
        for one in self._listeners:
            one.paused(topic, reason=reason, by=by)

    # the journal ---------------------------------------------------------------------------

    def unwritten(self) -> list[PausedTopic]:
        """Return the pauses that the journal has yet to store for the group."""
        with self._lock:
            return list(self._stops.values())

    def written(self, one: PausedTopic) -> None:
        """Hear that the journal has it."""
        with self._lock:
            self._stops.pop(one.topic, None)
            self._group.setdefault(one.topic, one)
            self._note()

    def learn(self, rows: Iterable[PauseRow]) -> None:
        """Take in the pauses of the group as the journal has them."""
        found = {one.topic: PausedTopic(*one) for one in rows if one.topic in self._topics}
        if found == self._group:
            return
        with self._lock:
            before, self._group = self._group, found
            self._note()
        for topic in found.keys() - before.keys():
            one = found[topic]
            log.warning("topic.paused", topic=topic, reason=one.reason, by=one.by)
        for topic in before.keys() - found.keys():
            log.info("topic.resumed", topic=topic)
        self._wake()

    def _note(self) -> None:
        self.closed = frozenset((*self._outages, *self._stops, *self._group))
