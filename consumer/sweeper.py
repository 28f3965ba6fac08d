"""The thread that ends what dead workers left, and tells what Redis missed.

A sweep's updates check the owner's lease and the row's generation in the same statement, so any
number of workers may sweep at once. It starts only when the database has answered for one whole
lease: after an outage everybody renews first (contract, section 5).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from consumer import telling
from consumer.journal import Journal, JournalUnavailable
from consumer.teller import Teller
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.sweeper")

LIMIT = 500
# Older than the worker's own lazy `published_at`, so that a sweep finds only what was missed.
UNPUBLISHED_AFTER_MS = 5_000


class Sweeper:
    """Sweeps about once a lease, until stopped.

    Args:
        journal: with a database connection of its own.
        may_sweep: asked with the monotonic time before each sweep.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        teller: Teller,
        lease_s: float,
        may_sweep: Callable[[float], bool],
    ) -> None:
        self._journal = journal
        self._teller = teller
        self._lease_s = lease_s
        self._may_sweep = may_sweep
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-sweeper", daemon=True)

    def start(self) -> None:
        """Begin to sweep."""
        self._thread.start()

    def stop(self) -> None:
        """End the sweeps and give the connection back."""
        self._stopping.set()
        self._thread.join()
        self._journal.close()

    def _run(self) -> None:
        # Workers that were started together must not sweep together.
        while not self._stopping.wait(self._lease_s * random.uniform(0.4, 0.6)):
            if self._may_sweep(monotonic_s()):
                self.sweep()

    def sweep(self) -> None:
        """Do one round; with the database away it is the next round's business."""
        try:
            self._end_dead_claims()
            self._repair_statuses()
        except JournalUnavailable as error:
            log.debug("sweep.failed", reason=error.reason)

    def _end_dead_claims(self) -> None:
        rows = self._journal.sweep_dead_claims(LIMIT)
        for row in rows:
            log.warning(
                "claim.swept",
                request_id=row.request_id,
                generation=row.generation,
                owner=row.owner,
                state=row.state,
            )
        self._teller.tell([telling.from_row(row) for row in rows])

    def _repair_statuses(self) -> None:
        if self._teller.redis_away:
            return
        rows = self._journal.unpublished(LIMIT, UNPUBLISHED_AFTER_MS)
        if rows:
            log.info("statuses.repaired", count=len(rows))
        self._teller.tell([telling.from_row(row, restore=True) for row in rows])
