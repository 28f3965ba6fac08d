"""The feature that collects failures of a worker, and the thread that posts them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from consumer.features.alerts.grouping import Alert, AlertEvent, AlertGrouping, AlertKind
from consumer.features.alerts.message import AlertSender, WebhookQueue
from consumer.features.outgoing.record_writer import DEAD_LETTERS, OutgoingListener
from consumer.features.pausing.pausing import PauseListener
from consumer.journal.records import Row
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.pool.outcome import HANDLER_ERROR
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import RedisUnavailable
from feedback.records.dead_letter_topics import source_topic
from feedback.redis.server import guarded
from feedback.redis.store import StatusStore
from feedback.settings.settings import AlertsSection

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


class FailureDetection:
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
    ) -> Iterator[AlertEvent]:
        """Yield the events to report about these.

        Args:
            now_s: monotonic now. now_ms: epoch now.
        """
        for one in failures:
            is_known = self._is_known(one, now_s)
            event = AlertEvent(
                AlertKind.FIRST, one.topic, now_ms, one.requests, one.code, one.request_id
            )
            yield event._replace(detail=one.message, is_more=is_known)
        for topic in dict.fromkeys(one.topic for one in failures):
            of_topic = [one for one in failures if one.topic == topic]
            in_minute = self._in_minute(topic, sum(one.requests for one in of_topic), now_s)
            if not 0 < self._limit < in_minute:
                continue
            for one in of_topic:
                event = AlertEvent(
                    AlertKind.RATE, topic, now_ms, one.requests, one.code, one.request_id
                )
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


# Only the worker that saw one of the others can report it.
_SEEN_BY_ALL = (AlertKind.AGE, AlertKind.HINDERED, AlertKind.PAUSED)


class AlertTurns:
    """Takes turns with the other workers of the group.

    Args:
        redis_away: whether asking it would only cost time.
        every_s: for how long no other worker sends the same alert.
    """

    def __init__(
        self, store: StatusStore, *, redis_away: Callable[[], bool], worker_id: str, every_s: float
    ) -> None:
        self._store = store
        self._redis_away = redis_away
        self._worker_id = worker_id
        self._every_ms = int(every_s * 1000)

    def is_mine(self, alert: Alert) -> bool:
        """Whether this worker sends it; without Redis every worker does."""
        if alert.kind not in _SEEN_BY_ALL or self._redis_away():
            return True
        key = f"{self._store.prefix}alert:{alert.kind}:{alert.topic}"
        try:
            with guarded():
                taken = self._store.redis.set(key, self._worker_id, nx=True, px=self._every_ms)
        except RedisUnavailable:
            return True
        return bool(taken)


# Of a post, to connect and to be answered. Nobody waits for it but the other alerts.
TIMEOUTS_S = (3.0, 5.0)


def make(core: Core) -> Sequence[Feature]:
    """Return the thread that alerts the owners of topics, if a webhook is configured."""
    settings, section = core.settings, core.settings.alerts
    if not section.has_webhooks:
        return ()
    sender = AlertSender(core.group, core.worker_id, settings.file)
    turns = AlertTurns(
        core.store,
        redis_away=core.redis_away,
        worker_id=core.worker_id,
        every_s=section.every_s,
    )
    alerts = Alerts(
        section,
        url_of=lambda topic: section.webhook_of(source_topic(topic, core.group)),
        queue=lambda url: WebhookQueue(url, post=_post, sender=sender, observers=core.observers),
        is_mine=turns.is_mine,
    )
    return (alerts,)


def _post(url: str, body: Mapping[str, Any]) -> str | None:
    # Memory that a worker without webhooks does not need.
    from feedback.web.webhook import post_json

    return post_json(url, body, timeouts_s=TIMEOUTS_S)


class Alerts(Feature, OutgoingListener, PauseListener):
    """Alerts the owners of topics.

    Events are counted together at once, so that many events take little memory.

    Args:
        settings: from when on an alert is sent.
        url_of: the webhook of a topic; empty for none.
        is_mine: whether this worker has to send an alert.
    """

    name: ClassVar[str] = "alerts"
    stop_s: ClassVar[float] = 3.0

    def __init__(
        self,
        settings: AlertsSection,
        *,
        url_of: Callable[[str], str],
        queue: Callable[[str], WebhookQueue],
        is_mine: Callable[[Alert], bool],
    ) -> None:
        self._age_s = settings.age_s
        self._url_of = url_of
        self._make_queue = queue
        self._is_mine = is_mine
        self._detection = FailureDetection(settings.rate_per_minute)
        self._grouping = AlertGrouping(settings.every_s)
        self._queues: dict[str, WebhookQueue] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="onceward-alerts", daemon=True)

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        if kind != DEAD_LETTERS:
            return
        told = [row for row in rows if self._url_of(row.topic)]
        examples = {(row.topic, _code(row)): row for row in reversed(told)}
        failures = [
            FailureBurst(*name, count, examples[name].request_id, _said_of(examples[name]))
            for name, count in Counter((row.topic, _code(row)) for row in told).items()
        ]
        with self._changed:
            events = self._detection.events(failures, now_s=monotonic_s(), now_ms=epoch_ms())
            self._add(list(events))

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        age_s = monotonic_s() - since_s
        if kind == DEAD_LETTERS and is_ours and count and 0 < self._age_s < age_s:
            self._hear(AlertEvent(AlertKind.AGE, topic, epoch_ms(), count, level=age_s))

    def hindered(self, kind: str, topic: str, reason: str) -> None:
        if kind == DEAD_LETTERS:
            self._hear(AlertEvent(AlertKind.HINDERED, topic, epoch_ms(), detail=reason))

    def paused(self, topic: str, *, reason: str, by: str = "") -> None:
        self._hear(AlertEvent(AlertKind.PAUSED, topic, epoch_ms(), detail=reason, by=by))

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Post the rest, once, and end; a webhook that hangs stays behind in its thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _hear(self, event: AlertEvent) -> None:
        if self._url_of(event.topic):
            with self._changed:
                self._add([event])

    def _add(self, events: Sequence[AlertEvent]) -> None:
        self._grouping.add(events, now_s=monotonic_s())
        if events:
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                self._changed.wait(self._patience_s())
                due = self._grouping.take_due(monotonic_s())
            self._tell(due)
        with self._changed:
            rest = self._grouping.take_all()
        self._tell(rest)

    def _patience_s(self) -> float | None:
        """Return how long there is nothing to do; the lock is ours, so nothing comes meanwhile."""
        if self._stopping:
            return 0.0
        times = [self._grouping.next_due_s, *(one.next_due_s for one in self._queues.values())]
        due_s = min((one for one in times if one is not None), default=None)
        return None if due_s is None else max(0.0, due_s - monotonic_s())

    def _tell(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            url = self._url_of(alert.topic)
            if self._is_mine(alert):
                if url not in self._queues:
                    self._queues[url] = self._make_queue(url)
                self._queues[url].add([alert])
        for queue in self._queues.values():
            queue.post(monotonic_s())


def _said_of(row: Row) -> str:
    """Return the text for a failure; for an undeclared error its class alone.

    Nobody checks the text of such an error; it may quote the payload.
    """
    said = row.message or ""
    return said.partition(":")[0] if row.code == HANDLER_ERROR else said


def _code(row: Row) -> str:
    return row.code or str(row.state)
