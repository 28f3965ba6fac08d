"""What of all that waits goes on in this turn of the loop, and what has waited too long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from consumer.features.pausing.paused import TOPIC_PAUSED
from consumer.features.pausing.pausing import Pausing
from consumer.handlers.delivery import Delivery
from consumer.loop.admission import Admission
from consumer.loop.consequences import Consequences
from consumer.loop.continuation import Continuation
from consumer.loop.held import Held
from consumer.loop.lease import Lease


class Choosing:
    """Fills the worker's hands as its lease and its free slots allow.

    Belongs to the loop's thread, but for what says otherwise.

    Args:
        held: what is in hand.
        admission: what waits, and which of it may be claimed.
        pausing: knows what of paused topics is to run all the same.
        told: tells of what is given up.
        slots: how many handlers run at the same time.
        journal_wait_s: how long a buffered request waits for an absent journal.

    Attributes:
        taking: whether new requests are claimed, and those of dead workers gone on with.
        revived: what dead workers left, and nobody has looked at yet.
    """

    def __init__(
        self,
        *,
        held: Held,
        admission: Admission,
        lease: Lease,
        pausing: Pausing,
        told: Consequences,
        slots: int,
        journal_wait_s: float,
    ) -> None:
        self._held = held
        self._admission = admission
        self._lease = lease
        self._pausing = pausing
        self._told = told
        self._slots = slots
        self._journal_wait_s = journal_wait_s
        self.taking = True
        self.revived: deque[Continuation] = deque()

    @property
    def room_for_revived(self) -> int:
        """How many requests of dead workers this worker can go on with soon. Any thread."""
        waiting = len(self.revived) + len(self._held.continuing)
        return max(0, self._slots - waiting) if self.taking else 0

    def revive(self, found: Iterable[Continuation]) -> None:
        """Take over what dead workers left. Any thread."""
        self.revived.extend(found)

    def continuable(self, now_s: float, free_slots: int) -> list[Continuation]:
        """Return which runs without an end go on now, at most `free_slots`."""
        while self.revived:
            one = self.revived.popleft()
            # A run that a child of ours still has was ours before others had it for a while: its
            # own end says more.
            if self.taking and one.run not in self._held.running:
                self._held.continuing.setdefault(one.run, one)
        if not (self._held.continuing and self._lease.lease_holds(now_s)):
            return []
        due = self._held.continuations(now_s, free_slots)
        if self._lease.may_sweep(now_s):
            return due
        # After an outage of the database the owners of the others have to renew first.
        return [one for one in due if one.run in self._held.running]

    def take(self, now_s: float, free_slots: int) -> None:
        """Take into hand what may be claimed, and what is to be refused."""
        self._give_up_paused(now_s)
        if self.taking:
            self._admission.gather(now_s)
        room = free_slots - len(self._held.claiming)
        if not self.taking or room <= 0 or not self._lease.lease_holds(now_s):
            return
        probes = self._pausing.probes(now_s, room, self._held.in_hand, self._admission.probe)
        self._held.claiming += probes
        room -= len(probes)
        for one in self._admission.take(room, now_s, self._held.in_hand()):
            if isinstance(one, Delivery):
                self._held.claiming.append(one)
            else:
                self._held.refusing.append(one)

    def claimable(self, now_s: float, free_slots: int) -> list[Delivery]:
        """Return what of it is claimed now, the first of `claiming`."""
        if self._lease.lease_holds(now_s):
            return self._held.claiming[:free_slots]
        # A claim of an owner whose lease is over would be swept at once, and parked in doubt.
        self.give_up_stuck(now_s)
        return []

    def give_up_stuck(self, now_s: float) -> None:
        """Give up what has waited too long for a journal that lets nothing be claimed."""
        self._told.given_up(self._admission.take_stuck(now_s, self._journal_wait_s))

    def _give_up_paused(self, now_s: float) -> None:
        old = self._admission.take_aside_older_than(now_s - self._journal_wait_s)
        if old:
            self._told.given_up(old, code=TOPIC_PAUSED)
