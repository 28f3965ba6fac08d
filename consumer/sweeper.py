"""The thread that goes on with what dead workers left, and tells what Redis missed.

Of a group's workers one sweeps at a time, whoever comes first after the last sweep: ten cost what
one does, and none has to be the one that lives. A sweep's writes check the owner's lease and the
row's generation in the same statement. It starts only when the database has answered for one whole
lease: after an outage everybody renews first (contract, section 5).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from consumer import telling
from consumer.continuation import After, Continuation, after_run, continuation
from consumer.declaration import EffectKind, Handler
from consumer.delivery import Delivery
from consumer.health.metrics import NO_METRICS, Metrics
from consumer.journal import WORKER_DIED, DeadEnd, Journal, JournalUnavailable, Row, State
from consumer.teller import Teller
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.logs import EventLog

log = EventLog("onceward.sweeper")

PAYLOAD_GONE = "PAYLOAD_GONE"
LIMIT = 500
STOP_S = 6.0
# Of a lease: how often a worker asks, and how long after a sweep another one may follow. A claim of
# a dead worker goes on at most a third of a lease after it ended.
ASK_EVERY = (0.12, 0.22)
SWEEP_EVERY = 0.1
# Older than the worker's own lazy `published_at`, so that a sweep finds only what was missed.
UNPUBLISHED_AFTER_MS = 5_000
_IN_DOUBT = "the worker died during the run; whether the effect happened is not known"
_GONE = "the worker died during the run; its payload is gone, so it cannot run again"


class Source(Protocol):
    """Where the payload of a dead worker's request comes from."""

    def of(self, row: Row) -> Delivery | None: ...


class Sweeper:
    """Sweeps a few times a lease, until stopped.

    Args:
        journal: with a database connection of its own.
        handlers: by topic; claims on other topics are left to workers that have theirs.
        payloads: makes deliveries of rows.
        revive: takes over what is to go on.
        room: how much `revive` takes now.
        may_sweep: asked with the monotonic time before each sweep.
        metrics: told what was found.
        overdue: wakes up retries that were forgotten, with every sweep.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        teller: Teller,
        worker_id: str,
        handlers: Mapping[str, Handler],
        payloads: Source,
        revive: Callable[[Iterable[Continuation]], None],
        room: Callable[[], int],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        metrics: Metrics = NO_METRICS,
        overdue: Callable[[], None] | None = None,
    ) -> None:
        self._metrics = metrics
        self._overdue = overdue
        self._journal = journal
        self._teller = teller
        self._worker_id = worker_id
        self._handlers = handlers
        self._payloads = payloads
        self._revive = revive
        self._room = room
        self._lease_s = lease_s
        self._may_sweep = may_sweep
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-sweeper", daemon=True)

    def start(self) -> None:
        """Begin to sweep."""
        self._thread.start()

    def stop(self) -> None:
        """End the sweeps and give the connection back.

        In the middle of reading from a Kafka that is away it is left behind, a daemon.
        """
        self._stopping.set()
        self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._journal.close()

    def _run(self) -> None:
        # Workers that were started together must not ask together.
        while not self._stopping.wait(self._lease_s * random.uniform(*ASK_EVERY)):
            if self._may_sweep(monotonic_s()):
                self.sweep()

    def sweep(self) -> None:
        """Do one round, if it is ours; with the database away it is the next round's business."""
        try:
            if self._journal.sweep_is_due(int(1000 * self._lease_s * SWEEP_EVERY)):
                self._go_on_for_the_dead()
                if self._overdue is not None:
                    self._overdue()
                self._repair_statuses()
        except JournalUnavailable as error:
            log.debug("sweep.failed", reason=error.reason)

    def _go_on_for_the_dead(self) -> None:
        rows = self._journal.dead_claims(self._handlers.keys(), LIMIT)
        judged = [(row, after_dead(row, self._handlers[row.topic])) for row in rows]
        # First what needs nobody else: reading payloads may take its time.
        self._end(
            [_parked(row, WORKER_DIED, _IN_DOUBT) for row, after in judged if after is After.PARK]
        )
        self._go_on([(row, after) for row, after in judged if after is not After.PARK])

    def _go_on(self, judged: Sequence[tuple[Row, After]]) -> None:
        ends: list[DeadEnd] = []
        found: list[Continuation] = []
        room = self._room()
        unreadable: set[str] = set()
        for row, after in judged:
            if len(found) >= room or self._stopping.is_set():
                break  # another sweep, or another worker's, finds the rest
            if row.topic in unreadable:
                continue
            try:
                delivery = self._payloads.of(row)
            except (KafkaUnavailable, RedisUnavailable) as error:
                log.debug("claim.left", request_id=row.request_id, reason=str(error))
                unreadable.add(row.topic)
                continue
            if delivery is None:
                ends.append(_parked(row, PAYLOAD_GONE, _GONE))
            else:
                found.append(continuation(delivery, row.generation, after, because=WORKER_DIED))
        self._end(ends)
        self._tell_retrying(found)
        self._revive(found)

    def _end(self, ends: Sequence[DeadEnd]) -> None:
        # Asked again: the database may have been away since the claims were found.
        if ends and self._may_sweep(monotonic_s()):
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
            self._metrics.swept(row.state)
            self._teller.tell([telling.from_row(row)])

    def _tell_retrying(self, found: Sequence[Continuation]) -> None:
        for _ in found:
            self._metrics.swept("RETRYING")
        now_ms = epoch_ms()
        self._teller.tell(
            telling.retrying(
                one.delivery,
                one.takeover.generation,
                worker_id=self._worker_id,
                due_at=now_ms,
            )
            for one in found
            if not one.asks
        )

    def _repair_statuses(self) -> None:
        if self._teller.redis_away:
            return
        rows = self._journal.unpublished(LIMIT, UNPUBLISHED_AFTER_MS)
        if rows:
            log.info("statuses.repaired", count=len(rows))
            self._metrics.repaired(len(rows))
        self._teller.tell([telling.from_row(row, restore=True) for row in rows])


def after_dead(row: Row, handler: Handler) -> After:
    """Return what follows the claim of a dead worker (contract, section 5).

    Where doubt begins is what the claim says: the handler may have been declared anew since.
    """
    effect = EffectKind(row.effect_kind or EffectKind.EXTERNAL)
    return after_run(effect, handler.in_doubt, effect_begun=row.effect_at is not None)


def _parked(row: Row, code: str, message: str) -> DeadEnd:
    return DeadEnd(row.request_id, row.generation, State.IN_DOUBT, code, message)
