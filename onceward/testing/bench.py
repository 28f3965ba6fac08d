"""A worker in memory for one handler: requests go through its real loop, journal and statuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from consumer.handlers.declaration import DeliveryKind, Handler, Order
from consumer.handlers.delivery import receive
from consumer.handlers.registry import DECLARED
from consumer.intake.buffer import Buffer
from consumer.journal import Journal
from consumer.loop.limits import Limits
from consumer.loop.scheduler import Scheduler
from consumer.loop.worker import Worker
from consumer.status import status_messages as telling
from consumer.status.status_writer import StatusWriter
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import OncewardError
from feedback.records.envelope import Envelope, Record, encode_headers, new_request_id
from feedback.statuses import Status
from onceward.testing.deaths import NeverReached, Point
from onceward.testing.memory import MemoryJournal, memory_store
from onceward.testing.threads import ThreadPool
from producer_client.submission import Value, encode_value

GROUP = "bench"
WORKER = "bench-1-0"
DEADLINE_S = 3600.0
FLUSH_S = 10.0


class NotCovered(OncewardError):
    """A bench cannot run this handler; the sentence says which declaration it lacks."""


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """How a request stands after a sending.

    Attributes:
        status: what its client is told.
        runs: how many times the handler was called for it in all sendings.
        effects: how many times a run of it was let into `request.effect()`.
        state: of its journal row. has_letter: whether the row owes a dead letter.
    """

    status: Status
    runs: int
    effects: int
    state: str
    has_letter: bool


class Bench:
    """Runs one handler as a worker would; not for several threads.

    >>> from onceward import Request, handler
    >>> @handler(topic="bench-doctest")
    ... def double(request: Request) -> int:
    ...     return int(request.json()) * 2
    >>> with Bench(double) as bench:
    ...     bench.run(21).status.result
    42

    Args:
        function: a function with `@handler`.

    Raises:
        NotCovered: it has no `@handler`, or one that a bench does not cover.
        NotAvailable: fakeredis is not installed.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.handler = covered(function)
        self._memory = MemoryJournal()
        url = self._memory.url
        self._pool = ThreadPool(self.handler, group=GROUP, journal_url=url)
        self._journal = Journal(url, group=GROUP, worker_id=WORKER)
        self._store = memory_store(GROUP)
        self._teller = StatusWriter(self._store)
        self._teller.start()
        self._buffer = Buffer(8)
        self._worker = self._make_worker()
        self._offset = 0
        self._is_closed = False

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all of it."""
        self._teller.stop(FLUSH_S)
        self._journal.close()
        self._store.close()
        self._memory.close()

    # where the next run dies ---------------------------------------------------------------

    def die_before_effect(self) -> None:
        """Let the child of the next run die before anything has happened outside."""
        self.die(Point.BEFORE_EFFECT)

    def die_in_effect(self) -> None:
        """Let it die within a call of a `Counterparty`, which has acted."""
        self.die(Point.IN_EFFECT)

    def die_after_effect(self) -> None:
        """Let it die when the handler has returned, before anybody heard of it."""
        self.die(Point.AFTER_EFFECT)

    def die(self, point: Point) -> None:
        """Let the child of the next run die at this point, once."""
        self._pool.dies_at, self._pool.hangs = point, False

    def time_limit(self, point: Point = Point.BEFORE_EFFECT) -> None:
        """Let the next run hang at this point, until its child is killed for its time limit."""
        self._pool.dies_at, self._pool.hangs = point, True

    # sending -------------------------------------------------------------------------------

    def run(
        self,
        value: Value = None,
        *,
        key: bytes | None = None,
        request_id: str | None = None,
        attempt: int = 1,
        duplicates: int = 0,
    ) -> BenchOutcome:
        """Send one request, run it until it has an end, and return how it stands.

        Args:
            value: as for `Client.send`.
            request_id: its id; None is a new one.
            attempt: 1 is the first sending, a resend has a higher one.
            duplicates: how many more records of it come, the same in all but their offsets.

        Raises:
            NeverReached: the run was to die at a point that it did not come to.
        """
        name = request_id or new_request_id()
        for _ in range(1 + duplicates):
            self._receive(name, attempt=attempt, key=key, value=encode_value(value))
            self._turn_until_idle()
        point, self._pool.dies_at = self._pool.dies_at, None
        if point is not None:
            raise NeverReached(f"{self.handler.name} never came to {point}")
        return self._ending(name)

    def _receive(
        self, request_id: str, *, attempt: int, key: bytes | None, value: bytes | None
    ) -> None:
        now_ms = epoch_ms()
        headers = tuple(encode_headers(Envelope(request_id, attempt)))
        record = Record(self.handler.topic, 0, self._offset, now_ms, key, value, headers)
        self._offset += 1
        one = receive(
            record,
            self.handler,
            default_deadline_s=DEADLINE_S,
            now_s=monotonic_s(),
            now_ms=now_ms,
        )
        if hasattr(one, "handler"):
            self._teller.tell([telling.accepted(one, worker_id=WORKER)])
        self._buffer.put([one])

    def _turn_until_idle(self) -> None:
        self._worker.turn()
        while not self._worker.idle or len(self._buffer):
            self._worker.turn()
        self._teller.flush(FLUSH_S)

    def _ending(self, request_id: str) -> BenchOutcome:
        rows = self._journal.rows([request_id])
        state = rows[0].state if rows else ""
        has_letter = bool(rows) and state == "FAILED" and not rows[0].resend
        status = self._store.read(request_id)
        return BenchOutcome(status, self._pool.runs, self._pool.entered, str(state), has_letter)

    def _make_worker(self) -> Worker:
        pool: Any = self._pool
        return Worker(
            worker_id=WORKER,
            scheduler=Scheduler(self._buffer),
            journal=self._journal,
            pool=pool,
            teller=self._teller,
            lease=_Lease(),
            limits=Limits(slots=1),
            statuses=self._store,
        )


class _Lease:
    """A lease that never ends."""

    def lease_holds(self, now_s: float) -> bool:
        return True

    def may_sweep(self, now_s: float) -> bool:
        return True

    def unbroken_since_s(self, now_s: float) -> float | None:
        return 0.0


def covered(function: Callable[..., Any]) -> Handler:
    """Return the declaration of a function.

    Raises:
        NotCovered: a bench cannot run it.
    """
    known = next((one for one in DECLARED.handlers if one.function is function), None)
    if known is None:
        raise NotCovered(f"{function!r} has no @handler")
    lacks = {
        "delivery=": known.delivery is not DeliveryKind.AT_MOST_ONCE,
        'order="key"': known.order is Order.KEY,
        "collapse=": known.collapse is not None,
        "retries=": known.retries is not None,
        "dead_letters_of=": known.dead_letters_of is not None,
    }
    for named, is_there in lacks.items():
        if is_there:
            raise NotCovered(f"{known.name}: a bench does not cover {named}")
    if known.schema is not None:
        known.schema.load()
    return replace(known)
