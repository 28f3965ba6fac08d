"""The selection of a turn: which waiting requests go on now, and how long the loop may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from consumer.handlers.delivery import Delivery
from consumer.intake.gate import TOPIC_PAUSED
from consumer.loop.continuation import Continuation
from consumer.loop.feature import Feature
from consumer.loop.in_flight import InFlight
from consumer.loop.lease import Lease
from consumer.loop.limits import Limits
from consumer.loop.scheduler import Scheduler
from feedback.clock import monotonic_s

IDLE_POLL_S = 0.5
AWAY_POLL_S = 0.2


class Selection:
    """Fills the worker's hands as its lease and its free slots allow.

    Belongs to the loop's thread, but for methods that say otherwise.

    Args:
        in_flight: the requests in flight.
        scheduler: the waiting requests, and which of them may be claimed.
        features: may let requests of closed topics run, and hold keys.
        give_up: called with requests that have waited too long, and a code for their clients.

    Attributes:
        taking: whether new requests are claimed, and those of dead workers gone on with.
        revived: runs of dead workers that nobody has looked at yet.
    """

    def __init__(
        self,
        *,
        in_flight: InFlight,
        scheduler: Scheduler,
        lease: Lease,
        limits: Limits,
        features: Sequence[Feature],
        give_up: Callable[..., None],
    ) -> None:
        self._in_flight = in_flight
        self._scheduler = scheduler
        self._lease = lease
        self._limits = limits
        self._features = features
        self._give_up = give_up
        self.taking = True
        self.revived: deque[Continuation] = deque()

    @property
    def room_for_revived(self) -> int:
        """How many requests of dead workers this worker can go on with soon. Any thread."""
        waiting = len(self.revived) + len(self._in_flight.continuing)
        return max(0, self._limits.slots - waiting) if self.taking else 0

    def revive(self, found: Iterable[Continuation]) -> None:
        """Take over runs of dead workers. Any thread."""
        self.revived.extend(found)

    def continuable(self, now_s: float, free_slots: int) -> list[Continuation]:
        """Return which runs without an end go on now, at most `free_slots`."""
        while self.revived:
            one = self.revived.popleft()
            if self.taking:
                self._in_flight.revive(one)
        if not (self._in_flight.continuing and self._lease.lease_holds(now_s)):
            return []
        due = self._in_flight.continuations(now_s, free_slots)
        if self._lease.may_sweep(now_s):
            return due
        # After an outage of the database the owners of the others have to renew first.
        return [one for one in due if one.run in self._in_flight.running]

    def take(self, now_s: float, free_slots: int) -> None:
        """Take requests into hand that may be claimed, or are to be refused."""
        old = self._scheduler.take_aside_older_than(now_s - self._limits.journal_wait_s)
        if old:
            self._give_up(old, code=TOPIC_PAUSED)
        if self.taking:
            self._scheduler.gather(now_s)
        room = free_slots - len(self._in_flight.claiming)
        if not self.taking or room <= 0 or not self._lease.lease_holds(now_s):
            return
        for feature in self._features:
            probes = feature.probes(now_s, room, self._in_hand, self._scheduler.probe)
            self._in_flight.take(probes)
            room -= len(probes)
        self._in_flight.take(self._scheduler.take(room, now_s, self._in_hand()))

    def claimable(self, now_s: float, free_slots: int) -> Sequence[Delivery]:
        """Return those that are claimed now, the first of `claiming`."""
        if self._lease.lease_holds(now_s):
            return self._in_flight.claiming[:free_slots]
        # A claim of an owner whose lease is over would be swept at once, and parked in doubt.
        self.give_up_stuck(now_s)
        return []

    def give_up_stuck(self, now_s: float) -> None:
        """Give up requests that have waited too long for a journal that grants nothing."""
        self._give_up(self._scheduler.take_stuck(now_s, self._limits.journal_wait_s))

    def patience_s(self, journal_away: bool, *, free_slots: int) -> float:
        """Return how long the loop may wait for its pool before it has to look at something else.

        Args:
            journal_away: whether the journal did not answer the last time.
        """
        if journal_away:
            return AWAY_POLL_S
        now_s, hands = monotonic_s(), self._in_flight
        if (hands.claiming or hands.continuing) and not self._lease.lease_holds(now_s):
            return AWAY_POLL_S
        # Leftovers and refusals of the last turn are written without waiting.
        if hands.refusing or (hands.claiming and free_slots):
            return 0.0
        if not free_slots:
            return IDLE_POLL_S
        return self._pause_s(now_s)

    def _pause_s(self, now_s: float) -> float:
        """Return how long nothing goes on by itself.

        A run that is due and may not go on yet is looked at again, after a pause.
        """
        is_going = self.taking and self._lease.lease_holds(now_s)
        if is_going and self._scheduler.has_more:
            # Claims before it took no slot: those requests had ended already, or run elsewhere.
            return 0.0
        times = (
            (self._in_flight.next_due_s(), self._lease.may_sweep(now_s)),
            (self._scheduler.next_s(now_s, self._in_hand()), is_going),
            *((feature.next_s(now_s), is_going) for feature in self._features),
        )
        pauses = (
            max(0.0 if may_go else AWAY_POLL_S, due_s - now_s)
            for due_s, may_go in times
            if due_s is not None
        )
        return min((IDLE_POLL_S, *pauses))

    def _in_hand(self) -> Iterator[Delivery]:
        yield from self._in_flight.in_hand()
        for feature in self._features:
            yield from feature.holds()
