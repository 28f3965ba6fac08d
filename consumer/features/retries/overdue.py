"""The sweep of retries that were not woken up.

Its record was never sent (the worker died between the row and it), or it was read by a worker that
died before it ran. It is sent once more; when that does not help either (the topic is away, the
record too large for it, no worker reads it any more), it goes on here, without a record.

Overdue retries are gone through from the oldest on, a bounded part with each sweep. Those that can
neither be sent nor ended yet stay where they are, however many they are, and those behind them go
on. `OverduePassage` says how far back it goes.

A next run is due after its row was written. So after a full passage the next one needs to see only
retries that came due since, and those that were still overdue then (`consumer.journal.pacing`).
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from consumer.features.retries.headers import WakeUp
from consumer.features.retries.next_run import wakeup_of_row
from consumer.handlers.delivery import Delivery
from consumer.intake.gate import Gates
from consumer.journal import JournalUnavailable, OverdueRetry, Row, Run
from consumer.journal.pacing import EVER_MS, LookPacing
from consumer.journal.sweeps.retrying import FROM_THE_OLDEST, DueCursor
from consumer.loop.core import Core
from consumer.status import status_messages
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.logs import EventLog


class OverduePassage:
    """The passages of one sweeper, one after the other; each may take several sweeps."""

    def __init__(self, page: int) -> None:
        self.cursor = FROM_THE_OLDEST
        self._page = page
        self._topics: Collection[str] = ()
        self._begin_at(0.0)

    def go_on(self, topics: Collection[str], now_s: float) -> None:
        """Begin a sweep over these topics.

        With other topics than before all of it begins anew: retries of a paused topic may be old.
        """
        if topics != self._topics:
            self._topics = frozenset(topics)
            self._begin_at(now_s)

    def within_ms(self, now_s: float) -> int:
        """Begin a page; return the largest delay, in ms, of the retries that it finds."""
        if self.cursor != FROM_THE_OLDEST:
            return EVER_MS if self._span.is_all else self._span.age_ms(now_s)
        self._began_s, self._took_s, self._oldest_ms = now_s, 0.0, 0
        return self._span.begin(now_s)

    def read(self, found: Sequence[OverdueRetry], *, took_s: float) -> bool:
        """Take in a page; return whether the passage ends with it."""
        self._took_s += took_s
        self._oldest_ms = max([self._oldest_ms, *(one.late_ms for one in found)])
        if len(found) == self._page:
            self.cursor = DueCursor.behind(found[-1].row)
            return False
        self.cursor = FROM_THE_OLDEST
        until_s = self._began_s + self._took_s
        self._span.looked(self._began_s, until_s, oldest_ms=self._oldest_ms)
        return True

    def failed(self, *, took_s: float) -> None:
        """Begin anew: the database gave up on a page."""
        self.cursor = FROM_THE_OLDEST
        self._span.ended(self._began_s, self._began_s + self._took_s + took_s)

    def _begin_at(self, now_s: float) -> None:
        self.cursor = FROM_THE_OLDEST
        self._span = LookPacing(now_s)
        self._began_s, self._took_s, self._oldest_ms = now_s, 0.0, 0


log = EventLog("onceward.retries")

# A busy worker is late by itself: its late retries need no second record.
OVERDUE_MS = 3_000
# Limits of one sweep: the rows of a page, the pages that are read, and the number of rows with a
# question to another server after which no other page is begun.
PAGE = 100
PAGES = 10
ASKED_LIMIT = 100
# Longer than a session: the record's next reader may have to wait for the end of a dead member.
FIRST_PAUSE_S, FACTOR = 10.0, 2.0
REMEMBERED = 10_000
GONE_AFTER_S = 60.0


class OverdueRetries:
    """Wakes up forgotten retries. Belongs to the sweeper's thread.

    Args:
        core: the worker; `due` of its scheduler is where due retries wait for a slot.
        send: sends a wake-up to its topic.
    """

    def __init__(self, core: Core, *, send: Callable[[Iterable[WakeUp]], None]) -> None:
        self._gates = Gates(core.gates)
        self._journal = core.sweeps
        self._handlers = core.by_topic
        self._payloads = core.payloads
        self._send = send
        self._buffer = core.scheduler.due
        self._on_due = core.wake
        self._status_writer = core.status_writer
        self._next_s: dict[Run, tuple[float, float]] = {}
        self._passage = OverduePassage(PAGE)
        # Since when a payload has been gone; and those of them that this passage has met.
        self._gone_s: dict[Run, float] = {}
        self._met_gone: set[Run] = set()

    def sweep(self) -> None:
        """Go on through overdue retries, from where the last sweep ended."""
        topics = self._handlers.keys() - self._gates.unread
        out_of_reach: set[str] = set()
        now_s = monotonic_s()
        self._passage.go_on(topics, now_s)
        asked = 0
        for _ in range(PAGES):
            found, is_last = self._read(topics - out_of_reach)
            asked += self._look_at(found, out_of_reach, now_s)
            if is_last:
                self._forget_gone()
            if is_last or asked >= ASKED_LIMIT:
                break
        self._remember(now_s)

    def _read(self, topics: Collection[str]) -> tuple[list[OverdueRetry], bool]:
        """Return the next page, and whether the passage ends with it."""
        began_s = monotonic_s()
        within_ms = self._passage.within_ms(began_s)
        cursor = self._passage.cursor
        try:
            found = self._journal.overdue_retries(
                topics, PAGE, OVERDUE_MS, cursor=cursor, within_ms=within_ms
            )
        except JournalUnavailable:
            self._passage.failed(took_s=monotonic_s() - began_s)
            raise
        return found, self._passage.read(found, took_s=monotonic_s() - began_s)

    def _look_at(self, page: Sequence[OverdueRetry], out_of_reach: set[str], now_s: float) -> int:
        """Wake up or end the retries of a page; return how many were found."""
        asked = 0
        ended: list[Row] = []
        for one in page:
            row = one.row
            if row.topic in out_of_reach or not (one.is_too_late or self._is_its_turn(row, now_s)):
                continue
            asked += 1
            if one.is_too_late:
                ended.append(row)
                continue
            try:
                delivery = self._delivery(one)
            except (KafkaUnavailable, RedisUnavailable) as error:
                # It would be as long for each other one of the topic, and others wait as well.
                out_of_reach.add(row.topic)
                log.debug("retry.left", request_id=row.request_id, reason=str(error))
                continue
            if delivery is not None:
                self._wake(delivery, row, now_s)
            elif self._is_gone_for_good(row, now_s):
                ended.append(row)
        if ended:
            rows = self._journal.end_retries(ended)
            self._status_writer.tell([status_messages.from_row(row) for row in rows])
        return asked

    def _forget_gone(self) -> None:
        """Forget of which requests the payload was gone: this passage has met all that are left."""
        self._gone_s = {name: self._gone_s[name] for name in self._met_gone}
        self._met_gone.clear()

    def _is_gone_for_good(self, row: Row, now_s: float) -> bool:
        """Whether nothing will wake it up any more.

        A wake-up has the payload with it, wherever that is gone by now: one that is late, by a busy
        worker or a pause, gets time to arrive.
        """
        if self._handlers[row.topic].retries is None:
            return True
        self._met_gone.add(_name(row))
        return now_s - self._gone_s.setdefault(_name(row), now_s) >= GONE_AFTER_S

    def _is_its_turn(self, row: Row, now_s: float) -> bool:
        at_s, _ = self._next_s.get(_name(row), (now_s, 0.0))
        return at_s <= now_s

    def _delivery(self, one: OverdueRetry) -> Delivery | None:
        """Return the delivery to run; None when its payload is not where it was."""
        delivery = self._payloads.of(one.row)
        if delivery is None:
            return None
        return delivery._replace(
            wakes=one.row.generation,
            retried=one.retried.runs,
            first_failed_at=one.retried.first_failed_at,
        )

    def _wake(self, delivery: Delivery, row: Row, now_s: float) -> None:
        name = _name(row)
        is_second = name in self._next_s
        if delivery.handler.retries is not None and not is_second:
            self._send([wakeup_of_row(delivery, row)])
        elif self._buffer.room:
            self._buffer.put([delivery])
            self._on_due()
        else:
            return  # another sweep, or another worker's
        _, pause_s = self._next_s.get(name, (0.0, FIRST_PAUSE_S / FACTOR))
        self._next_s[name] = (now_s + pause_s * FACTOR, pause_s * FACTOR)
        log.warning("retry.overdue", request_id=name[0], generation=name[1], again=is_second)

    def _remember(self, now_s: float) -> None:
        """Forget retries that were woken up long ago: they have gone on."""
        if len(self._next_s) > REMEMBERED:
            self._next_s = {name: at for name, at in self._next_s.items() if at[0] > now_s}


def _name(row: Row) -> Run:
    return row.request_id, row.generation
