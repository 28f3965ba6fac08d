"""Lanes for topics, worked through by a few threads.

A topic that is away blocks one thread for as long as a send may take, and then rests; the other
topics go on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from feedback.clock import monotonic_s
from feedback.doubling import doubled
from feedback.errors import NotAvailable, RedisUnavailable
from feedback.logs import EventLog
from feedback.outages import OutageLog
from producer_client.resender.resends import ResendBatch

log = EventLog("onceward.resender")

THREADS = 8
# So many batches of a topic wait while one is being sent.
WAITING = 2
REST_S = (2.0, 10.0)


class _TopicLane:
    def __init__(self) -> None:
        self.waiting: deque[ResendBatch] = deque()
        self.is_busy = False
        self.failures = 0
        self.outage = OutageLog(log, "topic.away", "topic.back")
        self.rests_until_s = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.is_busy and not self.waiting


class TopicLanes:
    """Batches under way, at most one of a topic at a time.

    Args:
        send: sends a batch; returns the error by which its topic is away, or None.
        on_fault: called with an unforeseen error; the thread ends.

    Attributes:
        has_missed_redis: Redis was away during a batch.
        has_missed_topic: a topic was away during a batch; the batches that waited were dropped.
    """

    def __init__(
        self,
        send: Callable[[ResendBatch], NotAvailable | None],
        *,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._send = send
        self._on_fault = on_fault
        self._lanes: dict[str, _TopicLane] = {}
        self._changed = threading.Condition()
        self._is_stopping = False
        self.has_missed_redis = False
        self.has_missed_topic = False
        self._threads = [
            # Daemons: a thread that hangs in Kafka must not keep the process from ending.
            threading.Thread(target=self._run, name=f"onceward-lane-{n}", daemon=True)
            for n in range(THREADS)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def offer(self, topic: str, batch: ResendBatch, *, wait_s: float = 0.0) -> bool:
        """Take a batch and return True, unless the topic rests or has enough batches waiting.

        Args:
            wait_s: longest wait for room.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(topic), wait_s)
            if self.rests_s(topic) > 0 or not self._has_room(topic):
                return False
            self._lanes.setdefault(topic, _TopicLane()).waiting.append(batch)
            self._changed.notify_all()
            return True

    def rests_s(self, topic: str) -> float:
        """Return for how long the topic will not be tried; 0 when it is there."""
        lane = self._lanes.get(topic)
        return 0.0 if lane is None else max(0.0, lane.rests_until_s - monotonic_s())

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; say whether that is so."""
        with self._changed:
            return self._changed.wait_for(self._are_all_idle, timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Begin nothing new, and wait for the batches being sent; say whether they ended."""
        with self._changed:
            self._is_stopping = True
            for lane in self._lanes.values():
                lane.waiting.clear()
            self._changed.notify_all()
            return self._changed.wait_for(self._are_all_idle, timeout_s)

    def _has_room(self, topic: str) -> bool:
        lane = self._lanes.get(topic)
        return lane is None or len(lane.waiting) < WAITING

    def _are_all_idle(self) -> bool:
        return all(lane.is_idle for lane in self._lanes.values())

    def _run(self) -> None:
        try:
            while (task := self._next()) is not None:
                self._work(*task)
        except Exception as error:  # nobody looks at this thread: the error ends the service
            self._on_fault(error)

    def _next(self) -> tuple[str, _TopicLane, ResendBatch] | None:
        with self._changed:
            while not self._is_stopping:
                for topic, lane in self._lanes.items():
                    if lane.waiting and not lane.is_busy:
                        lane.is_busy = True
                        return topic, lane, lane.waiting.popleft()
                self._changed.wait()
            return None

    def _work(self, topic: str, lane: _TopicLane, batch: ResendBatch) -> None:
        away: NotAvailable | None = None
        try:
            away = self._send(batch)
        except RedisUnavailable as error:
            # The loop that takes due requests finds out as well, and reports it: but not of a right
            # that sending alone needs.
            self.has_missed_redis = True
            away = error if error.fault is not None else None
            log.debug("batch.not_sent", topic=topic, reason=str(error))
        finally:
            with self._changed:
                self._note(topic, lane, away)
                self._changed.notify_all()

    def _note(self, topic: str, lane: _TopicLane, away: NotAvailable | None) -> None:
        lane.is_busy = False
        if self._is_stopping:
            return  # its error may come from our closing
        if away is None:
            lane.outage.ends(topic=topic)
            lane.failures = 0
            if lane.is_idle:
                del self._lanes[topic]
            return
        self.has_missed_topic = True
        lane.outage.begins(away, topic=topic)
        lane.failures += 1
        lane.rests_until_s = monotonic_s() + doubled(*REST_S, lane.failures)
        # Waiting batches would meet the same outage; they are due again when their lease ends.
        lane.waiting.clear()
