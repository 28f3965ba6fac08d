"""The interface of features: a gate, a say in how a run ends, and calls that report.

A feature is a class of this kind in a folder of its own, and one line in `consumer/ops/build.py`.
The loop holds a tuple of them and knows none by name. Each method here does nothing, so that a
feature has only those that it needs (`that_have`). One that is off is not made.

All are called in the loop's thread, but for the gate and the sweep. They return at once: work that
needs a server is handed to a thread of the feature's own. If the process dies between a transaction
and the call that follows it, the call is missing; a feature that must not miss anything finds it
again in the rows of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from consumer.handlers.delivery import Delivery
from consumer.intake.gate import Gate
from consumer.journal import Finish, Row, Run
from consumer.loop.settlement import Settlement, Skipping
from consumer.pool import Job
from feedback.records.envelope import Record
from feedback.statuses import StatusWrite


class Feature(Gate):
    """Takes part in the way of a request; as a `Gate` it may close topics.

    Attributes:
        name: that of its threads in the list of components; empty where it has none.
        stop_s: how long its `stop` may take.
    """

    name: ClassVar[str] = ""
    stop_s: ClassVar[float] = 0.0

    # its threads ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; the loop turns afterwards."""

    def leave(self) -> None:
        """Bring in no more requests; returns at once, see `has_left`."""

    def has_left(self, timeout_s: float) -> bool:
        """Return whether it brings in no more requests, after at most `timeout_s`."""
        return True

    def stop(self, timeout_s: float) -> None:
        """End its threads; nothing runs any more, and all ends are written."""

    # before a run --------------------------------------------------------------------------

    def probes(
        self,
        now_s: float,
        room: int,
        in_hand: Callable[[], Iterable[Delivery]],
        take: Callable[[str], Delivery | None],
    ) -> Sequence[Delivery]:
        """Return requests of closed topics that are to run all the same.

        Args:
            room: how many at most.
            in_hand: yields the requests that the worker claims or runs.
            take: removes and returns a waiting request of a topic.
        """
        return ()

    def next_s(self, now_s: float) -> float | None:
        """Return the monotonic time of its next `probes`; None when there is none by itself."""
        return None

    def began(self, delivery: Delivery, job: Job) -> None:
        """Hear of a run that is given to a child now: its claim is committed."""

    # the end of a run, before it is written ------------------------------------------------

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        """Return how a run is to end; a failure may become RETRYING, and be followed by a run."""
        return finish

    def skips(self, finishes: Iterable[Finish], running: Collection[Run]) -> Sequence[Skipping]:
        """Return waiting requests that are to end together with these finishes.

        Args:
            running: the runs that are in hand, those that end now included.
        """
        return ()

    def holds(self) -> Iterable[Delivery]:
        """Return ended requests that keep their keys until their `skips` are written."""
        return ()

    # after it is written -------------------------------------------------------------------

    def skipped(self, skips: Sequence[Skipping], rows: Mapping[str, Row]) -> None:
        """Hear the results of all `skips` of a turn: those that have a row here have ended."""

    def ended(self, one: Settlement) -> None:
        """Hear how a run ended, as the journal has it; or that one without an end is followed."""

    def never_ran(self, row: Row, record: Record) -> None:
        """Hear of a request that this worker has ended without a run: refused, or skipped."""

    def answered(self, row: Row, record: Record) -> None:
        """Hear how a request stands that was delivered or ended here: its row says otherwise."""

    def concluded(self, row: Row) -> None:
        """Hear of a request that the journal concluded for want of a run's own end. Any thread.

        Its run died or failed, and no other may follow: a takeover ended it, or a sweep.
        """

    def told(self, writes: Sequence[StatusWrite]) -> None:
        """Hear what clients are told, which the journal has. Any thread."""

    def given_up(self, deliveries: Sequence[Delivery]) -> None:
        """Hear of requests that this worker does not run after all. Any thread."""

    # the sweeper's thread ------------------------------------------------------------------

    def sweep(self) -> None:
        """Find work again that was missed.

        Raises:
            JournalUnavailable: it is the next sweep's business.
        """

    def swept(self, state: str) -> None:
        """Hear of a dead worker's claim that was ended or taken over, and its state now."""

    def repaired(self, count: int) -> None:
        """Hear of statuses that were written again from the journal."""


def that_have(features: Iterable[Feature], call: Callable[..., object]) -> tuple[Feature, ...]:
    """Return the features that have this call of `Feature` for themselves: it is made for each run.

    >>> class Counting(Feature):
    ...     def ended(self, one: Settlement) -> None: ...
    >>> those = (Feature(), Counting())
    >>> [len(that_have(those, call)) for call in (Feature.ended, Feature.began)]
    [1, 0]
    """
    return tuple(one for one in features if getattr(type(one), call.__name__) is not call)
