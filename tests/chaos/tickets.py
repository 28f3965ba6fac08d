"""What clients know of their requests: a ticket for each, from the send to the final status."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from feedback.clock import monotonic_s
from feedback.status import FINAL, State
from tests.chaos.orders import Order

# Nothing happened, and nothing will.
OVER = frozenset({State.FAILED, State.EXPIRED})


@dataclass(slots=True)
class Ticket:
    """What a client knows of its request.

    Attributes:
        sent_s: monotonic, before it was sent.
        told_s: when its first final status was seen; None as long as none was.
        told: that first final status.
        later: the last one seen after that, when it differs.
        is_unknown: nobody has said yet whether Kafka has it.
        tries: how often it was sent again under its id.
        is_sending: it is being sent again now.
    """

    order: Order
    sent_s: float
    told_s: float | None = None
    told: State | None = None
    later: State | None = None
    resubmitted_s: float = 0.0
    is_unknown: bool = False
    tries: int = 0
    is_sending: bool = False

    @property
    def wait_s(self) -> float | None:
        """Seconds from the send to the first final status."""
        return None if self.told_s is None else self.told_s - self.sent_s


class Tickets:
    """The tickets of all that Kafka may have. Safe to share between threads.

    Attributes:
        kept: by request id.
        not_sent: the ids that a client was told are nowhere, and when (monotonic).
        told: how many were told a final status.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Ticket] = {}
        self.kept: dict[str, Ticket] = {}
        self.not_sent: dict[str, float] = {}
        self.told = 0

    @property
    def open_count(self) -> int:
        """How many were not told yet."""
        return len(self._open)

    @property
    def over(self) -> dict[str, float]:
        """The requests of which a client was told that nothing happened, and when."""
        with self._lock:
            failed = {
                request_id: ticket.told_s
                for request_id, ticket in self.kept.items()
                if ticket.told in OVER and ticket.told_s is not None
            }
            return self.not_sent | failed

    def begin(self, batch: Mapping[str, Ticket]) -> None:
        """Expect the ends of these, which are about to be sent: one may come at once."""
        with self._lock:
            self._open.update(batch)

    def keep(self, batch: Mapping[str, Ticket], *, not_sent: Collection[str]) -> None:
        """Keep those that Kafka may have, and of the others that their clients were told so."""
        now_s = monotonic_s()
        with self._lock:
            for request_id, ticket in batch.items():
                if request_id in not_sent:
                    self.not_sent[request_id] = now_s
                    self._open.pop(request_id, None)
                else:
                    self.kept[request_id] = ticket

    def begin_again(self, request_ids: Iterable[str]) -> set[str]:
        """Return those to be sent again under their ids: who was told an end asks no more."""
        with self._lock:
            chosen = {one: self._open[one] for one in request_ids if one in self._open}
            for ticket in chosen.values():
                ticket.is_sending = True
                ticket.tries += 1
            return set(chosen)

    def end_again(self, request_ids: Iterable[str]) -> None:
        """Note that these were sent again, whatever came of it."""
        with self._lock:
            for request_id in request_ids:
                self.kept[request_id].is_sending = False

    def note(self, request_id: str, state: State, *, tries: int = 0) -> Ticket | None:
        """Note a status that was seen; return the ticket of who was told its end by it.

        A caller that sends again under the same id asks a failure to run again: one that it heard
        of only then is no end. The handle of that sending does not return it either.

        Args:
            tries: how often it had been sent again before that was read.
        """
        if state not in FINAL:
            return None
        now_s = monotonic_s()
        with self._lock:
            ticket = self._open.get(request_id)
            if ticket is not None and state in OVER and _is_outdated(ticket, tries):
                return None
            if ticket is not None:
                del self._open[request_id]
                ticket.told_s, ticket.told = now_s, state
                self.told += 1
            elif (known := self.kept.get(request_id)) is not None and known.told != state:
                known.later = state
            return ticket

    def take_turn(self, *, older_than_s: float, most: int) -> dict[str, int]:
        """Return open requests to look at, and how often each was sent again; put them last,
        behind those not looked at."""
        now_s = monotonic_s()
        with self._lock:
            chosen = [
                request_id
                for request_id, ticket in self._open.items()
                if now_s - ticket.sent_s > older_than_s and request_id in self.kept
            ][:most]
            for request_id in chosen:
                self._open[request_id] = self._open.pop(request_id)
            return {request_id: self._open[request_id].tries for request_id in chosen}


def _is_outdated(ticket: Ticket, tries: int) -> bool:
    return ticket.is_sending or ticket.tries != tries
