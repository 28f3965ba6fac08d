"""How many records of each topic wait in Kafka for this worker: asked for beside the road.

The consumer's own high-water mark stands still while a full buffer pauses its partitions. So a
thread with a connection of its own asks for the ends of the partitions and for the offsets that the
group has committed. Behind such an offset there may be no record, but the mark of a transaction's
end, up to which nobody commits: how far the consumer has read on, it says itself.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from feedback.kafka.questions import KafkaQuestions, asking
from feedback.kafka.values import Partition, ReadOn
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.lag")

EVERY_S = 10.0
# So soon it asks for partitions that have come since.
LOOK_S = 1.0
KEPT_S = 3 * EVERY_S


class LagReading(NamedTuple):
    """The records behind the committed offsets."""

    records: Mapping[Partition, int]
    asked_s: float


class LagWatch:
    """Asks Kafka now and then, until stopped.

    Args:
        owned: the partitions that this worker reads now; called from any thread.
        read_on: how far it has read them.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        owned: Callable[[], Collection[Partition]],
        read_on: Callable[[], Mapping[Partition, ReadOn]],
    ) -> None:
        self._settings = settings
        self._owned = owned
        self._read_on = read_on
        self._reading: LagReading | None = None
        self._has_said = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-lag", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Ask no more; a thread that waits for Kafka for longer is left behind, a daemon."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def seen(self, now_s: float) -> dict[str, int]:
        """Return the records that wait, by topic; no topic of which that is not known now.

        Any thread may ask.
        """
        return lag_by_topic(self._reading, self._owned(), now_s=now_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with asking(self._settings) as questions:
                    self._ask_on(questions)
            except NotAvailable as error:
                self._reading = None
                say = log.debug if self._has_said else log.warning
                say("lag.unknown", reason=str(error))
                self._has_said = True
                self._stopping.wait(EVERY_S)

    def _ask_on(self, questions: KafkaQuestions) -> None:
        ends = _Ends(questions)
        while not self._stopping.is_set():
            asked_s, owned = monotonic_s(), frozenset(self._owned())
            read_to = _read_to(questions, owned, group=self._settings.group or "")
            found = waiting(read_to, ends.of(owned), self._read_on())
            self._reading = LagReading(found, asked_s)
            self._has_said = False
            while not self._stopping.wait(LOOK_S):
                if monotonic_s() - asked_s >= EVERY_S or not owned.issuperset(self._owned()):
                    break


class _Ends:
    """The ends of partitions, to each of which records wait.

    Those of an open transaction do not wait yet, nor do those behind it. But one that has been open
    since the reading before may hang: a lag of none would hide that its partition stands still.
    """

    def __init__(self, questions: KafkaQuestions) -> None:
        self._questions = questions
        self._open: Mapping[Partition, int] = {}

    def of(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each that waits."""
        # In this order a transaction that begins meanwhile is none that is open.
        log_ends = self._questions.ends(partitions)
        ends = self._questions.committed_ends(partitions)
        before = self._open
        self._open = {one: end for one, end in ends.items() if end < log_ends[one]}
        hanging = self._open.items() & before.items()
        return ends | {one: log_ends[one] for one, _ in hanging}


def _read_to(
    questions: KafkaQuestions, partitions: Collection[Partition], *, group: str
) -> dict[Partition, int]:
    """Return the group's committed offsets; without one, the begin of what the partition still has.

    They are asked for before the ends, so that none lies behind an end.
    """
    committed = questions.group_offsets({group: partitions}) if partitions else {}
    return committed | questions.begins([one for one in partitions if one not in committed])


def waiting(
    read_to: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    read_on: Mapping[Partition, ReadOn],
) -> dict[Partition, int]:
    """Return how many offsets of each partition wait: those from `read_to` to its end.

    Where all that was read is committed, those that were passed over since then do not.
    """
    found: dict[Partition, int] = {}
    for one, end in ends.items():
        begin = read_to[one]
        further = read_on.get(one)
        if further is not None and further.after in (None, begin):
            begin = max(begin, further.next)
        found[one] = max(0, end - begin)
    return found


def lag_by_topic(
    reading: LagReading | None, owned: Collection[Partition], *, now_s: float
) -> dict[str, int]:
    """Return a reading by topic, without topics of which a partition is missing in it.

    Args:
        owned: others are another worker's business by now.
        now_s: monotonic; nothing is known by a reading that is too old.
    """
    if reading is None or now_s - reading.asked_s > KEPT_S:
        return {}
    found: Counter[str] = Counter()
    for one in owned:
        found[one[0]] += reading.records.get(one, 0)
    unread = {topic for topic, number in owned if (topic, number) not in reading.records}
    return {topic: found[topic] for topic in sorted(found.keys() - unread)}
