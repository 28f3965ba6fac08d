"""How long the worker's loop may wait for its pool before it has to look at something else."""

from __future__ import annotations

from consumer.features.pausing.pausing import Pausing
from consumer.loop.admission import Admission
from consumer.loop.held import Held
from consumer.loop.lease import Lease
from consumer.pool import Pool
from feedback.clock import monotonic_s

IDLE_POLL_S = 0.5
AWAY_POLL_S = 0.2


class Pacing:
    """Knows what goes on by itself, and when. Belongs to the loop's thread.

    Args:
        held: what is in hand.
        admission: what waits, and from when on it may be claimed.
        pausing: knows when a paused topic is tried again.
    """

    def __init__(
        self, *, held: Held, admission: Admission, pool: Pool, lease: Lease, pausing: Pausing
    ) -> None:
        self._held = held
        self._admission = admission
        self._pool = pool
        self._lease = lease
        self._pausing = pausing

    def patience_s(self, journal_away: bool, *, taking: bool) -> float:
        """Return how long to wait now.

        Args:
            journal_away: whether the journal did not answer the last time.
            taking: whether new requests are claimed.
        """
        if journal_away:
            return AWAY_POLL_S
        waits = self._held.claiming or self._held.continuing
        if waits and not self._lease.lease_holds(monotonic_s()):
            return AWAY_POLL_S
        # What the last turn left over, and what it refused, is written without waiting.
        left_over = self._held.claiming and self._pool.free_slots
        if self._held.refusing or left_over:
            return 0.0
        if not self._pool.free_slots:
            return IDLE_POLL_S
        return self._pause_s(monotonic_s(), taking=taking)

    def _pause_s(self, now_s: float, *, taking: bool) -> float:
        """Return how long nothing goes on by itself. What is due and may not go on yet is looked
        at again, and not without a pause."""
        is_going = taking and self._lease.lease_holds(now_s)
        if is_going and self._admission.has_more:
            # What was claimed before it took no slot: it had ended already, or is run elsewhere.
            return 0.0
        times = (
            (self._held.next_due_s(), self._lease.may_sweep(now_s)),
            (self._admission.next_s(now_s, self._held.in_hand()), is_going),
            (self._pausing.next_s(now_s), is_going),
        )
        pauses = (
            max(0.0 if may_go else AWAY_POLL_S, due_s - now_s)
            for due_s, may_go in times
            if due_s is not None
        )
        return min((IDLE_POLL_S, *pauses))
