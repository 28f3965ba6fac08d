"""The thread that goes on with claims of dead workers, and writes statuses that Redis missed.

Of a group's workers one sweeps at a time, the first to come after the last sweep. So ten cost as
much as one, and it does not matter which of them lives. A sweep's writes check the owner's lease
and the row's generation in the same statement. It starts only when the database has answered for
one whole lease: after an outage everybody renews first (docs: How it works).
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Sequence

from consumer.handlers.declaration import EffectKind, Handler
from consumer.journal import DeadEnd, JournalState, JournalUnavailable, Row
from consumer.journal.pacing import EVER_MS, pause_unless_quick_s
from consumer.journal.sweeps.dead_claims import FIRST, UnhandledRequest
from consumer.loop import dead_ends
from consumer.loop.continuation import (
    Continuation,
    NextStep,
    after_run,
    continuation,
    policy_of_dead,
)
from consumer.loop.core import Core
from consumer.loop.recovery.far_leases import FarLeases
from consumer.loop.recovery.look_back import AgeSlice, LookBack
from consumer.loop.told_runs import ToldRuns, read_statuses
from consumer.status import status_messages
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.logs import EventLog
from feedback.statuses import Status

log = EventLog("onceward.sweeper")

LIMIT = 500
# In leases: by then a worker that has a handler would have gone on.
UNHANDLED_AFTER = 3
# Fewer in a row may be an outage that has its own line in the log.
FAILURES = 5
# Of a lease: how often a worker asks, and how long after a sweep another one may follow. A claim of
# a dead worker goes on at most a third of a lease after it ended.
ASK_EVERY = (0.12, 0.22)
SWEEP_EVERY = 0.1
# Older than the worker's own lazy `published_at`, so that a sweep finds only missed ones.
UNPUBLISHED_AFTER_MS = 5_000
# Of a lease: how long a sweep goes on with repairs. Dead workers' claims wait no longer for it.
REPAIRS_FOR = 0.1
BACKLOG_PAUSE_S = 0.01
# Of a lease, but no less than this: how long the database may look for them in one sweep.
LOOKS_FOR = 0.01
LOOKS_S = 0.05


class Sweeper:
    """Sweeps a few times a lease, until stopped.

    Claims on topics without a handler here are left to workers that have theirs, until their
    deadline is over. The statuses in Redis are read as well: they know more than the database,
    where it has lost commits that it acknowledged.

    Args:
        core: the worker; its features sweep as well, and hear of the findings.
        revive: takes over runs that are to go on.
        room: how much `revive` takes now.
        may_mark: whether the journal takes the mark that a status was told: without it the same
            statuses would be told again in each round.
    """

    def __init__(
        self,
        core: Core,
        *,
        revive: Callable[[Iterable[Continuation]], None],
        room: Callable[[], int],
        may_mark: Callable[[], bool] = lambda: True,
    ) -> None:
        status_writer, lease_s = core.status_writer, core.settings.journal.lease_s
        self._core = core
        self._said_to_live: set[str] = set()
        self._journal = core.sweeps
        self._status_writer = status_writer
        self._handlers = core.by_topic
        self._told_runs = ToldRuns(core.store, lambda: status_writer.redis_away)
        self._revive = revive
        self._room = room
        self._may_mark = may_mark
        self._lease_s = lease_s
        self._far_leases = FarLeases(lease_s=lease_s)
        self._look_back = LookBack(
            youngest_ms=UNPUBLISHED_AFTER_MS, budget_s=max(LOOKS_S, lease_s * LOOKS_FOR)
        )
        # Since when nobody goes on with requests of these topics; infinite once that is logged.
        self._unhandled_s: dict[str, float] = {}
        self._unhandled_again_s = 0.0
        self._failures = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-sweeper", daemon=True)

    def start(self) -> None:
        """Begin to sweep."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the sweeps and give the connection back.

        In the middle of reading from a Kafka that is away it is left behind, a daemon.
        """
        self._stopping.set()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._journal.close()

    def _run(self) -> None:
        # Workers that were started together must not ask together.
        while not self._stopping.wait(self._lease_s * random.uniform(*ASK_EVERY)):
            self._find_open_requests()
            if self._core.may_sweep(monotonic_s()):
                self.sweep()

    def _find_open_requests(self) -> None:
        """Whatever the lease says: a worker needs its open requests to take its lease up again."""
        try:
            self._journal.find_open_requests()
        except JournalUnavailable as error:
            log.debug("sweeps.fail", reason=error.reason, times=self._failures)

    def sweep(self) -> None:
        """Do one round, if it is ours; with the database away it is the next round's business."""
        self._note_repaired()
        try:
            self._catch_up_with_told()
            if not self._journal.sweep_is_due(int(1000 * self._lease_s * SWEEP_EVERY)):
                return
            self._end_far_leases()
            self._go_on_for_the_dead()
            self._end_unhandled()
            for feature in self._core.features:
                feature.sweep()
            self._repair_statuses()
        except JournalUnavailable as error:
            self._failed(error)
        else:
            if self._failures >= FAILURES:
                log.info("sweeps.back", after=self._failures)
            self._failures = 0

    def _failed(self, error: JournalUnavailable) -> None:
        """Say that it fails again and again: nobody goes on for the dead meanwhile."""
        self._failures += 1
        say = log.warning if self._failures == FAILURES else log.debug
        say("sweeps.fail", reason=error.reason, times=self._failures)

    def _catch_up_with_told(self) -> None:
        """Bring rows forward whose end Redis did not take: it knows of a later run."""
        behind = self._status_writer.take_behind()
        if behind:
            self._catch_up(self._journal.rows(behind))

    def _catch_up(self, rows: Sequence[Row]) -> None:
        runs = self._told_runs.of_rows(rows)
        if not runs:
            return
        caught_up = self._journal.catch_up(runs)
        for row in caught_up:
            log.error(
                "row.behind",
                request_id=row.request_id,
                generation=row.generation,
                owner=row.owner,
                state=row.state,
            )
        self._status_writer.tell([status_messages.from_row(row) for row in caught_up])

    def _go_on_for_the_dead(self) -> None:
        rows = self._dead_claims()
        told = self._told(rows)
        ends = {row.request_id: dead_ends.told_end(row, told.get(row.request_id)) for row in rows}
        open_ = [row for row in rows if ends[row.request_id] is None]
        behind = {
            row.request_id: row
            for row in open_
            if dead_ends.is_behind(row, told.get(row.request_id))
        }
        judged = [
            (row, after_dead(row, self._handlers[row.topic]))
            for row in open_
            if row.request_id not in behind
        ]
        # First the steps that need no server: reading payloads may take its time.
        self._end([end for end in ends.values() if end is not None])
        self._end([dead_ends.parked(row) for row, after in judged if after is NextStep.PARK])
        # The next sweep judges the run that its client was told of, as that one was declared.
        self._catch_up(list(behind.values()))
        self._go_on([(row, after) for row, after in judged if after is not NextStep.PARK])

    def _dead_claims(self) -> list[Row]:
        """Return claims of the dead; those of workers whose heartbeat lives only after their
        deadlines.

        Such a worker may be working on another server with this journal, where it still has its
        lease: a standby was promoted, and its primary goes on.
        """
        found: list[Row] = []
        living: set[str] = set()
        after = FIRST
        while not self._stopping.is_set():
            rows = self._journal.dead_claims(self._handlers.keys(), LIMIT, after=after)
            living |= self._living(rows)
            now_ms = epoch_ms()
            found += [row for row in rows if row.owner not in living or row.deadline_at <= now_ms]
            # Claims of the living must not hide those behind them.
            if len(rows) < LIMIT or len(found) >= LIMIT:
                break
            after = (rows[-1].owner, rows[-1].request_id)
        for owner in living - self._said_to_live:
            log.warning("claims.owner_lives", owner=owner)
        self._said_to_live = living
        return found

    def _living(self, rows: Sequence[Row]) -> set[str]:
        """Return which owners have a heartbeat; none while Redis is away."""
        if not rows or self._status_writer.redis_away:
            return set()
        try:
            return self._core.store.alive({row.owner for row in rows})
        except RedisUnavailable as error:
            log.debug("heartbeats.unread", reason=str(error))
            return set()

    def _end_far_leases(self) -> None:
        """End claims that a database's clock keeps alive since it was set back."""
        found = self._journal.far_leases(int(1000 * self._lease_s))
        over = self._far_leases.over(found, monotonic_s())
        if not over:
            return
        try:
            living = self._core.store.alive({one.worker_id for one in over})
        except RedisUnavailable as error:
            log.debug("heartbeats.unread", reason=str(error))
            return
        # One that lives has a longer lease than this worker.
        gone = [one for one in over if one.worker_id not in living]
        if gone and self._core.may_sweep(monotonic_s()) and self._journal.end_leases(gone):
            log.error("leases.ended", count=len(gone), worker_id=gone[0].worker_id)

    def _end_unhandled(self) -> None:
        """End, after their deadlines, requests that no worker of the group has a handler for.

        One that has would have gone on with them long before.
        """
        if monotonic_s() < self._unhandled_again_s:
            return
        found = self._unhandled()
        self._log_unhandled({one.row.topic for one in found})
        late = [one.row for one in found if one.is_late]
        claims = [row for row in late if row.state == JournalState.CLAIMED]
        told = self._told(claims)
        self._end(
            [
                dead_ends.told_end(row, known) or dead_ends.without_handler(row, known)
                for row in claims
                for known in (told.get(row.request_id),)
            ]
        )
        waiting = [row for row in late if row.state != JournalState.CLAIMED]
        if waiting:
            self._tell_ended(self._journal.end_retries(waiting))

    def _unhandled(self) -> list[UnhandledRequest]:
        began_s = monotonic_s()
        late_ms = int(1000 * self._lease_s * UNHANDLED_AFTER)
        try:
            return self._journal.unhandled(self._handlers.keys(), LIMIT, late_ms)
        finally:  # also where the database gave up on it: the rest of the next sweeps goes on
            took_s = monotonic_s() - began_s
            self._unhandled_again_s = began_s + pause_unless_quick_s(took_s)

    def _log_unhandled(self, topics: set[str]) -> None:
        now_s = monotonic_s()
        self._unhandled_s = {one: self._unhandled_s.get(one, now_s) for one in topics}
        for topic, since_s in self._unhandled_s.items():
            if now_s - since_s >= self._lease_s * UNHANDLED_AFTER:
                log.warning("handler.missing", topic=topic)
                self._unhandled_s[topic] = math.inf

    def _told(self, rows: Sequence[Row]) -> dict[str, Status]:
        """Return the statuses of these; nothing while Redis is away."""
        if not rows or self._status_writer.redis_away:
            return {}
        try:
            return read_statuses(self._core.store, [row.request_id for row in rows])
        except RedisUnavailable as error:
            log.debug("statuses.unread", reason=str(error))
            return {}

    def _go_on(self, judged: Sequence[tuple[Row, NextStep]]) -> None:
        ends: list[DeadEnd] = []
        found: list[tuple[Row, Continuation]] = []
        room = self._room()
        unreadable: set[str] = set()
        for row, after in judged:
            if len(found) >= room or self._stopping.is_set():
                break  # another sweep, or another worker's, finds the rest
            if row.topic in unreadable:
                continue
            try:
                delivery = self._core.payloads.of(row)
            except (KafkaUnavailable, RedisUnavailable) as error:
                log.debug("claim.left", request_id=row.request_id, reason=str(error))
                unreadable.add(row.topic)
                continue
            if delivery is None:
                ends.append(dead_ends.without_payload(row))
            else:
                because = dead_ends.cause(row)
                found.append((row, continuation(delivery, row.generation, after, because=because)))
        self._end(ends)
        self._tell_retrying(found)
        self._revive([one for _, one in found])

    def _end(self, ends: Sequence[DeadEnd]) -> None:
        # Asked again: the database may have been away since the claims were found.
        if ends and self._core.may_sweep(monotonic_s()):
            self._tell_ended(self._journal.end_dead_claims(ends))

    def _tell_ended(self, rows: Iterable[Row]) -> None:
        for row in rows:
            log.warning(
                "claim.swept",
                request_id=row.request_id,
                generation=row.generation,
                owner=row.owner,
                state=row.state,
                code=row.code,
            )
            self._hear_swept(row.state)
            for feature in self._core.features:
                feature.concluded(row)
            self._status_writer.tell([status_messages.from_row(row)])

    def _tell_retrying(self, found: Sequence[tuple[Row, Continuation]]) -> None:
        for _ in found:
            self._hear_swept("RETRYING")
        now_ms = epoch_ms()
        self._status_writer.tell(
            status_messages.retrying(
                one.delivery,
                one.takeover.generation,
                worker_id=self._core.worker_id,
                due_at=now_ms,
                row=row,
            )
            for row, one in found
            if not one.asks
        )

    def _hear_swept(self, state: str) -> None:
        for feature in self._core.features:
            feature.swept(state)

    def _repair_statuses(self) -> None:
        if self._status_writer.redis_away or not self._may_mark():
            return
        until_s = monotonic_s() + self._lease_s * REPAIRS_FOR
        self._look_back.begin()
        now_s = monotonic_s()
        while (ages := self._look_back.next(now_s)) is not None and not self._stopping.is_set():
            took_s = self._repair_within(ages, until_s)
            if took_s is None:
                break
            self._look_back.looked(ages, now_s, took_s)
            now_s = monotonic_s()

    def _note_repaired(self) -> None:
        """Count the statuses of earlier repairs that Redis has taken since."""
        count = self._status_writer.take_restored()
        if count:
            log.info("statuses.repaired", count=count)
            for feature in self._core.features:
                feature.repaired(count)

    def _repair_within(self, ages: AgeSlice, until_s: float) -> float | None:
        """Tell ends anew; return how long the database took, None where there are more."""
        took_s = 0.0
        last, within_ms = (0, ""), ages.oldest_ms
        while True:
            began_s = monotonic_s()
            rows = self._journal.unpublished(
                LIMIT, ages.youngest_ms, within_ms=within_ms, after=last
            )
            took_s += monotonic_s() - began_s
            self._status_writer.tell([status_messages.from_row(row, restore=True) for row in rows])
            if len(rows) < LIMIT:
                return took_s
            # A full page is followed by the next at once, but never further than Redis follows.
            if self._stopping.is_set() or monotonic_s() >= until_s or not self._is_told(until_s):
                return None
            # Rows behind the last of a page have aged since.
            last, within_ms = (rows[-1].finished_at or 0, rows[-1].request_id), EVER_MS

    def _is_told(self, until_s: float) -> bool:
        """Wait until there is room for another page; say whether there is in time."""
        while self._status_writer.backlog > LIMIT:
            if monotonic_s() >= until_s or self._status_writer.redis_away:
                return False
            self._stopping.wait(BACKLOG_PAUSE_S)
        return True


def after_dead(row: Row, handler: Handler) -> NextStep:
    """Return the next step after the claim of a dead worker (docs: How it works).

    The claim says where doubt begins, and who decides then: the handler may have been declared anew
    since.
    """
    effect = EffectKind(row.effect_kind or EffectKind.EXTERNAL)
    policy = policy_of_dead(row.in_doubt, handler.in_doubt)
    return after_run(effect, policy, effect_begun=row.effect_at is not None)
