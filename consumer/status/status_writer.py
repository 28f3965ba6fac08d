"""The thread that tells clients: Redis may be slow or away, and processing does not stop for it.

A sweep writes failed statuses later, since the journal is the truth: so the backlog is bounded, and
dropping from it loses nothing.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from consumer.journal import Published, Row
from consumer.status.availability import ServerOutage
from consumer.status.status_backlog import StatusBacklog
from feedback.clock import epoch_ms, monotonic_s
from feedback.doubling import doubled
from feedback.errors import RedisRefused, RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.sent_write import SentWrite
from feedback.redis.split_batch import BATCH, write_apart
from feedback.redis.store import StatusStore
from feedback.status import BEFORE_CLAIM, FINAL, RefusalReason, State
from feedback.statuses import Refused, StatusWrite

log = EventLog("onceward.status_writer")

# A slow Redis gets more at a time: the cost of a backlog is round trips then.
LARGEST_BATCH = 1024
# A run shorter than this is told by its outcome alone: half the writes for short handlers.
RUNNING_AFTER_S = 0.02
# An answer that takes longer must not be waited for on the way of a request.
SLOW_S = 0.2
FIRST_RETRY_S, LONGEST_RETRY_S = 0.25, 2.0
# Statuses beyond it are found again: the journal has no confirmation for them.
BEHIND_LIMIT = 500
_ME = "teller"


class StatusWriter:
    """Writes statuses in batches, the newest of each request.

    Args:
        store: the group's statuses.
        outage: told when Redis is away.
        resend_after_s: when the resender looks first at a request that is ACCEPTED here.
        on_tell: called with the statuses before Redis gets them; from any thread, and returns at
            once.
        may_be_behind: whether the journal has lost something where Redis knows of a later run; else
            it forgets on purpose, and whoever it is was told enough.
    """

    def __init__(
        self,
        store: StatusStore,
        *,
        outage: ServerOutage | None = None,
        resend_after_s: float = 30.0,
        on_tell: Callable[[Sequence[StatusWrite]], None] | None = None,
        may_be_behind: bool = True,
    ) -> None:
        self._store = store
        self._may_be_behind = may_be_behind
        self._behind: deque[str] = deque(maxlen=BEHIND_LIMIT)
        self._on_tell = on_tell
        self._outage = outage or ServerOutage("redis")
        self._look_after_ms = int(resend_after_s * 1000)
        self._untold = StatusBacklog()
        self._told: deque[Published] = deque()
        self._restored: deque[None] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._stopping = False
        self._failures = 0
        self._retry_at_s = 0.0
        self._took_s = 0.0
        self._thread = threading.Thread(
            target=self._run, name="onceward-status_writer", daemon=True
        )

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def tell(self, writes: Iterable[StatusWrite]) -> None:
        """Take over statuses; returns at once. Of one request the newest is told."""
        writes = [*writes]
        if not writes:
            return  # the loop calls with nothing in most of its turns: that must wake no thread
        if self._on_tell is not None:
            self._on_tell(writes)
        now_s = monotonic_s()
        with self._changed:
            for write in writes:
                self._untold.add(write, now_s)
            self._changed.notify_all()

    def tell_running(self, rows: Iterable[Row]) -> None:
        """Take over claims that were just dispatched; one that ends soon is never told as such."""
        with self._changed:
            # Only the first of a new row of runs can be due before the thread's next time.
            if self._untold.add_running(rows, monotonic_s() + RUNNING_AFTER_S):
                self._changed.notify_all()

    @contextmanager
    def telling(self, writes: Sequence[StatusWrite]) -> Iterator[list[Refused | None]]:
        """Tell in the caller's thread while the block runs; take over like `tell` where Redis does
        not answer promptly.

        The statuses are sent before the block. After it the list has the answer of Redis to each;
        it stays empty where there is none yet.
        """
        answers: list[Refused | None] = []
        if not writes:
            yield answers
            return
        sent = self._sent(writes)
        try:
            yield answers
        except BaseException:
            if sent is not None:
                sent.abandon()
            raise
        if sent is not None:
            answers += self._answers(sent, writes)

    def _sent(self, writes: Sequence[StatusWrite]) -> SentWrite | None:
        if self.redis_slow:
            self.tell(writes)
            return None
        try:
            return self._store.send(writes, look_at=epoch_ms() + self._look_after_ms)
        except (RedisRefused, RedisUnavailable) as error:
            self._leave_to_thread(writes, error)
            return None

    def _answers(self, sent: SentWrite, writes: Sequence[StatusWrite]) -> list[Refused | None]:
        try:
            answers = sent.answers()
        except (RedisRefused, RedisUnavailable) as error:
            self._leave_to_thread(writes, error)
            return []
        # Without the block: Kafka may be slow where Redis is not.
        self._took_s = sent.waited_s
        return answers

    def _leave_to_thread(
        self, writes: Sequence[StatusWrite], error: RedisRefused | RedisUnavailable
    ) -> None:
        if isinstance(error, RedisRefused):
            self.tell(writes)  # they are told one by one
            return
        with self._changed:
            self._fail(writes, error)
            # The thread may wait for work, with none in sight.
            self._changed.notify_all()

    def take_told(self) -> list[Published]:
        """Return the journal states that Redis has since the last call."""
        told = []
        # Another thread may forget them meanwhile.
        with suppress(IndexError):
            while True:
                told.append(self._told.popleft())
        return told

    def forget_told(self) -> None:
        """Forget the states that are there for `take_told`: the Redis that has them may be gone.

        Where the journal has not noted one, a sweep tells it once more. From any thread.
        """
        self._told.clear()

    def take_behind(self) -> list[str]:
        """Return the requests of which Redis knows a later run than the journal, since the last
        call."""
        behind = set()
        while self._behind:
            behind.add(self._behind.popleft())
        return sorted(behind)

    def take_restored(self) -> int:
        """Return how many statuses were written anew from the journal since the last call."""
        count = 0
        while self._restored:
            self._restored.popleft()
            count += 1
        return count

    @property
    def told_count(self) -> int:
        """How many are there for `take_told`."""
        return len(self._told)

    @property
    def backlog(self) -> int:
        """How many statuses wait to be told."""
        return len(self._untold)

    @property
    def is_all_told(self) -> bool:
        """Whether nothing waits to be told."""
        return not self._untold and not self._busy

    @property
    def redis_away(self) -> bool:
        """Whether the last write found no Redis."""
        return self._failures > 0

    @property
    def redis_slow(self) -> bool:
        """Whether a write cannot be expected to return soon."""
        return self._failures > 0 or self._took_s > SLOW_S

    def flush(self, timeout_s: float) -> bool:
        """Return whether everything was told, after at most `timeout_s`.

        A Redis that is away is tried once more, and not waited for.
        """
        with self._changed:
            failures = self._failures
            self._retry_at_s = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_all_told or self._failures > failures, timeout_s)
            return self.is_all_told

    def stop(self, timeout_s: float) -> None:
        """End the thread; call `flush` before.

        In the middle of a write to a Redis that hangs it is left behind, a daemon: see `has_ended`.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether the thread uses the store no longer."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            began_s = monotonic_s()
            try:
                answers = write_apart(self._store, batch, look_at=self._look_at(batch))
            except RedisUnavailable as error:
                with self._changed:
                    self._fail(batch, error)
            else:
                self._took_s = monotonic_s() - began_s
                self._note_told(batch, answers)

    def _next_batch(self) -> list[StatusWrite] | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._stopping:
                now_s = monotonic_s()
                next_s = self._untold.promote(now_s)
                if self._failures and now_s < self._retry_at_s:
                    next_s = self._retry_at_s
                elif self._untold:
                    self._busy = True
                    most = BATCH if self._took_s < SLOW_S else LARGEST_BATCH
                    return self._untold.take(most)
                self._changed.wait(None if next_s is None else next_s - now_s)
            return None

    def _look_at(self, batch: Sequence[StatusWrite]) -> int | None:
        if any(write.state in BEFORE_CLAIM for write in batch):
            return epoch_ms() + self._look_after_ms
        return None

    def _note_told(
        self, batch: Sequence[StatusWrite], answers: Sequence[Refused | RedisRefused | None]
    ) -> None:
        self._failures = 0
        self._outage.ends(_ME)
        for write, answer in zip(batch, answers, strict=True):
            if isinstance(answer, RedisRefused):
                self._give_up(write, str(answer))
            elif self._is_behind(write, answer):
                self._behind.append(write.request_id)
            elif _is_told(write, answer):
                name = write.request_id, write.generation, str(write.state)
                self._told.append(Published(*name))
                # One step each, which no other thread can come between.
                if write.restore:
                    self._restored.append(None)

    def _is_behind(self, write: StatusWrite, answer: Refused | None) -> bool:
        """Whether a client was told of a later run than this, which the journal says was the last.

        Or the journal has gone on meanwhile: then it is found to be behind nothing.
        """
        if (
            answer is None
            or answer.reason is not RefusalReason.GENERATION
            or not _ends_a_run(write)
        ):
            return False
        return self._may_be_behind

    def _give_up(self, write: StatusWrite, reason: str) -> None:
        log.error("status.not_told", request_id=write.request_id, state=write.state, reason=reason)
        with self._changed:
            self._untold.note_refused(write, monotonic_s())

    def _fail(self, batch: Sequence[StatusWrite], error: RedisUnavailable) -> None:
        """Keep the failed statuses, and wait a while, longer each time; under the lock."""
        self._outage.begins(_ME, error)
        self._failures += 1
        pause_s = doubled(FIRST_RETRY_S, LONGEST_RETRY_S, self._failures)
        self._retry_at_s = monotonic_s() + pause_s * random.uniform(0.8, 1.2)
        self._untold.put_back(batch)


def _is_told(write: StatusWrite, answer: Refused | None) -> bool:
    """Whether the journal may note that its client knows."""
    if not _ends_a_run(write):
        return False
    # A refused write counts as told too: the status that stands there is newer. Not so where it is
    # another payload's: that is no answer to this request, and a sweep writes the journal's row
    # there.
    return answer is None or answer.reason is not RefusalReason.PAYLOAD


def _ends_a_run(write: StatusWrite) -> bool:
    return write.state in FINAL or write.state is State.RETRYING
