"""Looks in Kafka for the records of requests that may have been taken back.

A Redis that came back may know less than it told (`resending.decide`). One search goes over the
parts of a topic in which the records must lie, and marks all requests there that Kafka has: also
those that were not asked for, since after a Redis came back they are many. If the process dies, the
marks stand, and the rest is searched for at its next check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from feedback.clock import monotonic_s
from feedback.doubling import doubled
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.kafka.errors import TopicRefused
from feedback.kafka.scan import KafkaScan
from feedback.logs import EventLog
from feedback.outages import OutageLog
from feedback.redis.deadlines import Deadlines
from feedback.redis.sent_marks import SentMarks
from feedback.redis.split_batch import read_apart
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection
from feedback.status import State
from feedback.statuses import Status

log = EventLog("onceward.resender")

# Records have their sender's time, statuses that of Redis. A record that is older is not found.
CLOCKS_MARGIN_S = 15.0
# One sender's clock may be ahead: a partition is over when so many records in a row are too late.
LATE_RECORDS = 1000
REST_S = (2.0, 10.0)
READ_AT_ONCE = 500


class TimeSpan(NamedTuple):
    """A part of a topic; epoch ms, both ends included."""

    since_ms: int
    until_ms: int


def spans_of(told_ms: Sequence[int], *, send_timeout_s: float) -> list[TimeSpan]:
    """Return the parts of a topic that may have the records of requests, one after the other.

    Args:
        told_ms: when their PENDING was written, epoch ms.
        send_timeout_s: how long after that a record may come.
    """
    margin_ms = int(CLOCKS_MARGIN_S * 1000)
    spans: list[TimeSpan] = []
    for told in sorted(told_ms):
        since_ms = max(0, told - margin_ms)
        until_ms = told + int(send_timeout_s * 1000) + margin_ms
        if spans and since_ms <= spans[-1].until_ms:
            spans[-1] = TimeSpan(spans[-1].since_ms, until_ms)
        else:
            spans.append(TimeSpan(since_ms, until_ms))
    return spans


class RecordSearch:
    """Searches one topic after the other, in a thread of its own.

    Args:
        settings: brokers and security.
        send_timeout_s: how long after its PENDING a record may come.
        on_found: called before requests become due that were found.
        on_fault: called with an unforeseen error; the thread ends.

    Attributes:
        has_missed: Kafka or Redis was away during a search, or a topic may not be read.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        store: StatusStore,
        deadlines: Deadlines,
        send_timeout_s: float,
        on_found: Callable[[], None],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._deadlines = deadlines
        self._marks = SentMarks(store)
        self._send_timeout_s = send_timeout_s
        self._on_found = on_found
        self._on_fault = on_fault
        # For each topic, its requests and the start of Redis that their PENDING names.
        self._wanted: dict[str, dict[str, str | None]] = {}
        self._outages: dict[str, OutageLog] = {}
        self._missing: dict[str, int] = {}
        self._failures = 0
        self._tries_once = self._is_busy = self._is_stopping = self.has_missed = False
        self._changed = threading.Condition()
        # A daemon: a thread that hangs in Kafka must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="onceward-search", daemon=True)

    def start(self, *, tries_once: bool = False) -> None:
        """Start the thread.

        Args:
            tries_once: whether to leave what cannot be searched for to its next check.
        """
        self._tries_once = tries_once
        self._thread.start()

    def add(self, topic: str, statuses: Sequence[Status]) -> None:
        """Have requests of one topic searched for; those of no known topic are left alone."""
        if topic:
            with self._changed:
                wanted = self._wanted.setdefault(topic, {})
                wanted.update((one.request_id, one.told_in) for one in statuses)
                self._changed.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is searched for; say whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy and not self._wanted, timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """End the search; say whether it has ended."""
        with self._changed:
            self._is_stopping = True
            self._wanted.clear()
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (task := self._next()) is not None:
                self._work(*task)
        except Exception as error:  # nobody looks at this thread: the error ends the service
            self._on_fault(error)

    def _next(self) -> tuple[str, Mapping[str, str | None]] | None:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._wanted or self._is_stopping)
            if self._is_stopping:
                return None
            self._is_busy = True
            topic = next(iter(self._wanted))
            return topic, self._wanted.pop(topic)

    def _work(self, topic: str, wanted: Mapping[str, str | None]) -> None:
        outage = self._outages.setdefault(topic, OutageLog(log, "search.away", "search.back"))
        try:
            missing = self._search(topic, wanted)
        except (KafkaUnavailable, RedisUnavailable) as error:
            self.has_missed = True
            outage.begins(error, topic=topic)
            # Who may not read the topic goes on with all other requests.
            if not self._tries_once and not isinstance(error, TopicRefused):
                self._failures += 1
                self._rest(topic, wanted)
            return
        outage.ends(topic=topic)
        self._failures = 0
        if missing and missing != self._missing.get(topic):
            log.warning("requests.not_found", topic=topic, count=missing)
        self._missing[topic] = missing

    def _rest(self, topic: str, wanted: Mapping[str, str | None]) -> None:
        until_s = monotonic_s() + doubled(*REST_S, self._failures)
        with self._changed:
            # Those that came meanwhile stay the newer ones.
            self._wanted[topic] = {**wanted, **self._wanted.get(topic, {})}
            self._changed.wait_for(lambda: self._is_stopping, until_s - monotonic_s())

    def _search(self, topic: str, wanted: Mapping[str, str | None]) -> int:
        """Mark the requests that Kafka has; return how many of the wanted ones it has not."""
        left = self._unsure(wanted)
        if not left:
            return 0
        with KafkaScan(self._settings) as scan:
            for span in spans_of([*left.values()], send_timeout_s=self._send_timeout_s):
                for found in self._found_in(scan, topic, span):
                    for one in found:
                        left.pop(one, None)
                    if self._is_stopping or not left:
                        return 0
        # Another resender may have found them first.
        return len(self._unsure({one: wanted[one] for one in left}))

    def _unsure(self, wanted: Mapping[str, str | None]) -> dict[str, int]:
        """Return those that nobody has marked, and when their PENDING was written: epoch ms.

        Those that are marked by now are checked at once: who marked them may have died since, or
        met them while they were leased.
        """
        unsure: dict[str, int] = {}
        marked: list[str] = []
        request_ids = list(wanted)
        for at in range(0, len(request_ids), READ_AT_ONCE):
            # Another value under such a key is not ours to send.
            for status in read_apart(self._store, request_ids[at : at + READ_AT_ONCE], []):
                if status.state is not State.PENDING or status.updated_at is None:
                    continue
                if status.told_in == wanted[status.request_id] is not None:
                    unsure[status.request_id] = status.updated_at
                else:
                    marked.append(status.request_id)
        self._have_checked(marked)
        return unsure

    def _found_in(self, scan: KafkaScan, topic: str, span: TimeSpan) -> Iterator[list[str]]:
        where = scan.spans([topic], since_ms=span.since_ms)
        late = dict.fromkeys(where, 0)
        for page in scan.pages(where):
            found = self._marks.mark(page.records)
            self._have_checked(found)
            yield found
            for record in page.records:
                place = record.topic, record.partition
                late[place] = late[place] + 1 if record.timestamp_ms > span.until_ms else 0
            if all(
                late[place] >= LATE_RECORDS or page.positions[place] >= offsets.end
                for place, offsets in where.items()
            ):
                return

    def _have_checked(self, request_ids: Sequence[str]) -> None:
        if request_ids:
            self._on_found()
            self._deadlines.hasten(request_ids)
