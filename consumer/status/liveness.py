"""Keeps the worker alive for others: its lease in SQL, its heartbeat in Redis.

Each has a thread of its own and is renewed three times within its length: a Redis that hangs must
not cost the lease, nor a database the heartbeat. A lease is compared by the database's clock only;
here its end is kept on the monotonic clock, counted from before the renewal was sent.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from consumer.journal import JournalUnavailable, Leases
from consumer.status.heartbeat import Heartbeat, Reading
from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.observer import Observer, observed
from feedback.outages import log_outage

log = EventLog("onceward.liveness")


class Liveness:
    """Renews the lease and the heartbeat until stopped.

    Args:
        leases: with a database connection of its own.
        heartbeat: is told the timeline of that database.
        forgets: whether the journal goes with this worker, and so knows of none before it.
        observers: hear of renewals.

    Attributes:
        lease_end_s: monotonic; counted from before the renewal was sent.
        journal_away: the database did not answer the last time.
        refusal: the right that it does not give, in a sentence; empty without such a fault.
    """

    def __init__(
        self,
        *,
        leases: Leases,
        heartbeat: Heartbeat,
        lease_s: float,
        forgets: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._observers = observers
        self.journal_away = False
        self.refusal = ""
        self._forgets = forgets
        self._lease_s = lease_s
        self._leases = leases
        self._heartbeat = heartbeat
        self.lease_end_s = 0.0
        self._renewed_since_s: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-lease", daemon=True)

    def start(self) -> None:
        """Take the lease, tell the first heartbeat, and go on renewing both.

        Raises:
            JournalUnavailable, RedisUnavailable: the worker cannot start without them.
        """
        before_s = monotonic_s()
        with observed(self._observers, "lease"):
            self._leases.register(self._lease_s)
        self._read_timeline()
        self.lease_end_s = before_s + self._lease_s
        self._renewed_since_s = before_s
        self._heartbeat.start(is_first_worker=not self._forgets and self._leases.is_first_worker())
        self._thread.start()

    def lease_holds(self, now_s: float) -> bool:
        """Whether our lease certainly has not ended yet. It only narrows a window; the
        generation of a claim closes it."""
        return now_s < self.lease_end_s

    def may_sweep(self, now_s: float) -> bool:
        """Whether the database answered for one whole lease, so that everybody could renew."""
        since_s = self._renewed_since_s
        return since_s is not None and now_s - since_s >= self._lease_s and self.lease_holds(now_s)

    def unbroken_since_s(self, now_s: float) -> float | None:
        """Return since when our lease holds, on the monotonic clock; None when it is over.

        Each renewal since then came before the end of the lease. Before that, others may have
        taken over our requests. None also when the last renewal has failed.
        """
        return self._renewed_since_s if self.lease_holds(now_s) else None

    def stop(self, timeout_s: float) -> None:
        """End the renewals, and say that this worker is gone.

        A renewal that has not come back by then is left behind, and the lease ends by itself.
        """
        if self.end_renewals(timeout_s):
            self.release()
        else:
            log.warning("lease.not_released", reason="its renewal has not come back")

    def end_renewals(self, timeout_s: float) -> bool:
        """Renew no more; return whether no renewal is under way, after at most `timeout_s`."""
        self._stopping.set()
        self._heartbeat.stop()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def release(self) -> None:
        """Say that this worker is gone, so that nobody waits for its lease to end."""
        try:
            self._leases.release()
        except JournalUnavailable as error:
            log.warning("lease.not_released", reason=str(error))
        finally:
            self._leases.close()
        self._heartbeat.end()

    def _run(self) -> None:
        due_s = monotonic_s() + self._lease_s / 3
        while not self._stopping.wait(max(0.0, due_s - monotonic_s())):
            # From its beginning: an answer that takes long must not put off the next renewal, or
            # the lease ends in between, each time.
            due_s = monotonic_s() + self._lease_s / 3
            self._renew()

    def _read_timeline(self) -> None:
        asked_s = monotonic_s()
        found = self._leases.timeline()
        self._heartbeat.timeline = None if found is None else Reading(found, asked_s)

    def _renew(self) -> None:
        before_s = monotonic_s()
        try:
            with observed(self._observers, "lease"):
                if self._leases.renew(self._lease_s) is None:
                    self._leases.register(self._lease_s)
            self.journal_away, self.refusal = False, ""
            self._read_timeline()
        except JournalUnavailable as error:
            self.journal_away = True
            is_new = error.fault is not None and not self.refusal
            self.refusal = self.refusal if error.fault is None else str(error)
            if self._renewed_since_s is not None or is_new:
                log_outage(log, "lease.not_renewed", error)
            self._renewed_since_s = None
            return
        was_over = monotonic_s() >= self.lease_end_s
        self.lease_end_s = before_s + self._lease_s
        if self._renewed_since_s is None or was_over:
            # The outage that held us up may have held up the others: they renew before anybody
            # sweeps.
            log.info("lease.renewed_again")
            self._renewed_since_s = before_s
