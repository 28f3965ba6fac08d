"""The thread that writes statuses again that Redis has forgotten (docs: How it works, Redis keys).

When another start of the Redis server answers, it may have come back empty; when the journal's id
that was there is not any more, it was emptied (`FLUSHALL`), or it evicts keys. Then every worker
writes the statuses of its own requests again. One worker of the group, whose turn it is, writes the
endings whose time is not over from the journal, the latest first, and then all open doubts. Both
are harmless where Redis has kept its data: the status rule refuses an older status. Payloads are
not told again: a resend reads them from Kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from consumer.journal import JournalUnavailable, Row
from consumer.journal.losses.republish import Republication, RestoreCursor, WhoseTurn
from consumer.status import status_messages
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.split_batch import batches, write_apart
from feedback.redis.store import StatusStore
from feedback.status import STORED, State
from feedback.statuses import StatusWrite

log = EventLog("onceward.republisher")

PAGE = 500
# The road goes first: this thread works a quarter of the time at most, and not at all while so many
# statuses wait to be told.
WORKED_SHARE = 0.25
BACKLOG_LIMIT = 1_000
BACKLOG_PAUSE_S = 0.1
RETRY_S = 1.0
# After so many failures in a row another worker, that may still reach Redis, gets the turn.
TRIES = 10


class StatusRestore:
    """Serves each start of Redis once, until stopped.

    Args:
        republication: with a database connection of its own.
        holding: the statuses of the requests in this worker's buffer and children; called in this
            thread.
        backlog: how many statuses wait to be told.
        ttl_s: for how long a status in a state is kept: no older ending is told again.
        resend_after_s: when the resender looks first at an open request.
        lease_s: how often to ask whether a turn has become free.
        on_lost: called when another start, or other contents, answer; it returns at once.
    """

    def __init__(
        self,
        *,
        republication: Republication,
        store: StatusStore,
        holding: Callable[[], Iterable[StatusWrite]],
        backlog: Callable[[], int],
        ttl_s: Callable[[State], float],
        resend_after_s: float,
        lease_s: float,
        on_lost: Callable[[], None],
    ) -> None:
        self._republication = republication
        self._store = store
        self._holding = holding
        self._backlog = backlog
        self._ttl_ms: dict[State, int] = {state: int(ttl_s(state) * 1000) for state in STORED}
        self._look_after_ms = int(resend_after_s * 1000)
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._heard = ""
        self._held_told = ""
        self._served = ""
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-republish", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; one that waits for a server that hangs is left behind, a daemon."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def redis_is(self, run_id: str) -> None:
        """Hear which start of the server answers, and behind a dot with which contents.

        The start is empty while this user may not ask for it: that is no other one. It returns at
        once.
        """
        start, _, contents = run_id.partition(".")
        if not start:
            start = self._heard.partition(".")[0]
            run_id = f"{start}.{contents}"
        if run_id == self._heard:
            return
        if self._heard:
            self._on_lost()
        with self._changed:
            if self._heard and self._heard.partition(".")[0] == start:
                log.warning("redis.emptied", run_id=start)
            elif self._heard.partition(".")[0]:
                log.warning("redis.restarted", run_id=start)
            elif not self._heard:
                self._held_told = run_id  # this worker has just begun and holds nothing
            self._heard = run_id
            self._changed.notify_all()

    def _run(self) -> None:
        while (run_id := self._next()) is not None:
            try:
                self._tell_held(run_id)
                is_served = self._serve(run_id)
            except (RedisUnavailable, JournalUnavailable) as error:
                log.debug("republish.failed", reason=str(error))
                is_served = False
            # There may be nothing to do for weeks.
            self._republication.close()
            if is_served:
                self._served = run_id
            else:
                self._pause(self._lease_s, run_id)

    def _next(self) -> str | None:
        """Return the start of Redis to serve, waiting for one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._heard != self._served)
            return None if self._stopping.is_set() else self._heard

    def _pause(self, seconds: float, run_id: str) -> None:
        """Wait, unless it has become pointless to serve this start of Redis."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over(run_id), seconds)

    def _is_over(self, run_id: str) -> bool:
        return self._stopping.is_set() or self._heard != run_id

    def _tell_held(self, run_id: str) -> None:
        if self._held_told == run_id:
            return
        held = list(self._holding())
        self._tell(held, is_open=True)
        self._held_told = run_id
        log.info("statuses.held_told", count=len(held))

    def _serve(self, run_id: str) -> bool:
        """Return whether the endings are told again, by us or by another worker."""
        turn = self._republication.take_turn(run_id)
        if turn is not WhoseTurn.MINE:
            return turn is WhoseTurn.DONE
        count = self._tell_endings(run_id)
        self._republication.end_turn(None if count is None else run_id)
        if count is not None:
            log.info("statuses.republished", count=count)
        return count is not None

    def _tell_endings(self, run_id: str) -> int | None:
        """Return how many were told; None when it could not be done to the end."""
        cursor: RestoreCursor | None = RestoreCursor()
        count = failures = 0
        while cursor is not None:
            if self._is_over(run_id) or failures == TRIES:
                return None
            began_s = monotonic_s()
            try:
                page = self._republication.page(cursor, ttl_ms=self._ttl_ms, limit=PAGE)
                self._tell_rows(page.rows)
            except (RedisUnavailable, JournalUnavailable):
                failures += 1
                self._pause(RETRY_S, run_id)
                continue
            failures = 0
            count += len(page.rows)
            cursor = page.following
            self._make_way(monotonic_s() - began_s, run_id)
        return count

    def _tell_rows(self, rows: Sequence[Row]) -> None:
        now_ms = epoch_ms()
        for is_open in (True, False):
            # Past its deadline nothing is opened again, so the resender need not look.
            chosen = [row for row in rows if (row.deadline_at > now_ms) is is_open]
            self._tell(
                [status_messages.from_row(row, restore=True) for row in chosen], is_open=is_open
            )

    def _tell(self, writes: Sequence[StatusWrite], *, is_open: bool) -> None:
        for batch in batches(writes):
            look_at = epoch_ms() + self._look_after_ms if is_open else None
            write_apart(self._store, batch, look_at=look_at)

    def _make_way(self, worked_s: float, run_id: str) -> None:
        self._pause(worked_s * (1 / WORKED_SHARE - 1), run_id)
        while self._backlog() > BACKLOG_LIMIT and not self._is_over(run_id):
            self._pause(BACKLOG_PAUSE_S, run_id)
