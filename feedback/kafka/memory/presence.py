"""Whether a broker in memory answers, and the way of each request to it.

One lock guards the broker, and its condition announces each change. A request is a function, which
is carried out under the lock: at once, later, or with its answer lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from threading import Condition
from typing import TypeVar

from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.faults import said

AnswerT = TypeVar("AnswerT")


class BrokerState(StrEnum):
    """How a broker answers."""

    UP = "up"
    DOWN = "the connection is refused"
    STILL = "did not answer in time"
    MUTE = "carried it out, and its answer was lost"


class BrokerPresence:
    """A broker's lock, and its state. Safe to share between threads.

    Args:
        longest_wait_s: a call that finds it away waits for it no longer, even where it may.

    Attributes:
        changed: announces each change at the broker; its lock guards the broker.
        state: how it answers now.
        on_return: called with the lock when it answers again, behind the late requests.
    """

    def __init__(self, address: str, *, longest_wait_s: float) -> None:
        self.address = address
        self.longest_wait_s = longest_wait_s
        self.changed = Condition()
        self.state = BrokerState.UP
        self.on_return: list[Callable[[], None]] = []
        self._late: list[Callable[[], object]] = []
        self._failures: Counter[str] = Counter()

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        return self.state is BrokerState.UP

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse all connections for the length of the block; data and groups are kept."""
        with self._away(BrokerState.DOWN):
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still for the length of the block; what was asked for meanwhile is done after."""
        with self._away(BrokerState.STILL):
            yield

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Lose all answers for the length of the block; what is asked for is done."""
        with self._away(BrokerState.MUTE):
            yield

    def fail_next(self, call: str, *, times: int = 1) -> None:
        """Be away at the next calls of this name, as `commit`, and at no others.

        Args:
            call: the name of a method of an engine's object, or `connect`.
        """
        with self.changed:
            self._failures[call] += times

    def ask(
        self, call: str, request: Callable[[], AnswerT], *, limit_s: float, changes: bool = False
    ) -> AnswerT:
        """Carry a request out, and return its answer.

        Args:
            call: the name of the call, for `fail_next`.
            limit_s: how long the answer may take.
            changes: whether it changes something at the broker.

        Raises:
            KafkaFault: there was no answer.
        """
        with self.changed:
            if self._failures[call] > 0:
                self._failures[call] -= 1
                raise self.fault(BrokerState.DOWN)
            found = self.state
            if found is BrokerState.MUTE and changes:
                self._carry_out(request)
            wait_s = min(limit_s, self.longest_wait_s)
            is_answered = self.changed.wait_for(lambda: self.is_up, wait_s)
            if is_answered and not (found is BrokerState.MUTE and changes):
                answer = request()
                if changes:
                    self.changed.notify_all()
                return answer
            if self.state is BrokerState.STILL and changes:
                self._late.append(request)
            raise self.fault(found)

    def keep(self, request: Callable[[], object]) -> None:
        """Carry a request out when it goes on that stands still; for callers with the lock."""
        self._late.append(request)

    def fault(self, state: BrokerState) -> KafkaFault:
        """Return the fault of a broker in this state."""
        return said(KafkaFault, self.address, state.value)

    def wait(self, timeout_s: float) -> None:
        """Return at the next change, or when the time is over; for callers with the lock."""
        if timeout_s > 0:
            self.changed.wait(timeout_s)

    @contextmanager
    def _away(self, state: BrokerState) -> Iterator[None]:
        self._become(state)
        try:
            yield
        finally:
            self._become(BrokerState.UP)

    def _become(self, state: BrokerState) -> None:
        with self.changed:
            self.state = state
            late, self._late = self._late, []
            if state is BrokerState.UP:
                for request in late:
                    self._carry_out(request)
                for tell in [*self.on_return]:
                    tell()
            self.changed.notify_all()

    def _carry_out(self, request: Callable[[], object]) -> None:
        """Carry out a request whose answer nobody hears."""
        with suppress(KafkaUnavailable):
            request()
        self.changed.notify_all()
