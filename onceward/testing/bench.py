"""A worker in memory for one handler: requests go through its real loop, journal and statuses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery, receive
from consumer.intake.buffer import Buffer
from consumer.journal import Journal, Row
from consumer.journal.owed_rows import DeadLetterRows
from consumer.journal.waiting import OwedCursor
from consumer.loop.limits import Limits
from consumer.loop.scheduler import Scheduler
from consumer.loop.worker import Worker
from consumer.status import status_messages
from consumer.status.status_writer import StatusWriter
from feedback.clock import epoch_ms, monotonic_s
from feedback.records.envelope import Envelope, Record, encode_headers, new_request_id
from feedback.redis.store import StatusStore
from feedback.statuses import Status
from onceward.testing.bench_outcome import BenchOutcome, NotCovered, covered
from onceward.testing.bench_retries import BenchRetries
from onceward.testing.deaths import Death, JournalOutage, NeverReached, Point
from onceward.testing.memory import EndlessLease, MemoryJournal, memory_store
from onceward.testing.threads import ThreadPool
from producer_client.submission import Value, encode_value

GROUP = "bench"
WORKER = "bench-1-0"
DEADLINE_S = 3600.0
FLUSH_S = 10.0
MANY = 1_000


class Bench:
    """Runs one handler as a worker would; not for several threads.

    With pytest's `--onceward-real` it is a `RealBench`: the same tests on real servers.

    >>> from onceward import Request, handler
    >>> @handler(topic="bench-doctest")
    ... def double(request: Request) -> int:
    ...     return int(request.json()) * 2
    >>> with Bench(double) as bench:
    ...     bench.run("21").status.result
    42

    Args:
        function: a function with `@handler`.
        store: where its worker tells statuses; None: an empty one.

    Raises:
        NotCovered: it has no `@handler`, or one that a bench does not cover.
        NotAvailable: fakeredis is not installed.
    """

    # The last is switched on: `onceward.testing.real.switch`.
    kinds: ClassVar[list[type[Bench]]] = []

    def __new__(cls, function: Callable[..., Any], *, store: StatusStore | None = None) -> Bench:
        """Return a bench of the kind that is switched on."""
        return super().__new__(cls.kinds[-1] if cls.kinds else cls)

    def __init__(self, function: Callable[..., Any], *, store: StatusStore | None = None) -> None:
        self.handler = covered(function)
        self._store = memory_store(GROUP) if store is None else store
        self._memory = MemoryJournal()
        url = self._memory.url
        self._pool = ThreadPool(self.handler, group=GROUP, worker_id=WORKER, journal=self._memory)
        self._journal = Journal(url, group=GROUP, worker_id=WORKER)
        self._letters = DeadLetterRows(url, group=GROUP, worker_id=WORKER)
        self._status_writer = StatusWriter(self._store)
        self._status_writer.start()
        self._intake = Buffer(8)
        self._scheduler = Scheduler(self._intake, Buffer(MANY))
        self._retries = BenchRetries()
        self._deadlines: dict[str, int] = {}
        self._worker = self._make_worker()
        self._offset = 0

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
        """End its threads and forget all requests."""
        self._pool.close()
        self._status_writer.stop(FLUSH_S)
        self._journal.close()
        self._letters.close()
        self._store.close()
        self._memory.close()

    # where the next run dies: each call is the death of one more run ------------------------

    def die_before_effect(self) -> None:
        """Let the child of the next run die before anything has happened outside."""
        self.die(Point.BEFORE_EFFECT)

    def die_in_effect(self) -> None:
        """Let it die within its effect.

        That is in a call of a `Counterparty`, which has acted; without one, where the handler
        leaves `with request.effect():`. A handler that has neither never comes to this point.
        """
        self.die(Point.IN_EFFECT)

    def die_after_effect(self) -> None:
        """Let it die when the handler has returned, before anybody heard of it."""
        self.die(Point.AFTER_EFFECT)

    def die(self, point: Point) -> None:
        """Let the child of the next run die at this point."""
        self._ahead.append(Death(point))

    def pause(self, point: Point = Point.BEFORE_EFFECT) -> None:
        """Let the worker of the next run stand still at this point, and wake up too late.

        Another one takes over meanwhile. Then the run goes on where it was: its claim is gone, and
        a call that was on its way still goes out. Nobody hears how it ends.

        Raises:
            NotCovered: it is transactional: its writes are undone.
            NotReal: on real servers.
        """
        if self._is_transactional:
            raise NotCovered(f"{self.handler.name}: a run that has a transaction is not paused")
        self._ahead.append(Death(point, wakes=True))

    def time_limit(self, point: Point = Point.BEFORE_EFFECT) -> None:
        """Let the next run hang at this point, and its child be killed for its time limit."""
        self._ahead.append(Death(point, is_overdue=True))

    def journal_away(self, point: Point | None = None) -> None:
        """Let the journal be away until its worker has noticed.

        Args:
            point: from there on in the next run; None: from now on. A transactional handler has a
                transaction open at each point, so it takes None.
        """
        if point is None:
            self._memory.go_away()
        elif self._is_transactional:
            raise NotCovered(f"{self.handler.name}: its journal is away between runs alone")
        else:
            self._ahead.append(JournalOutage(point))

    @property
    def _ahead(self) -> deque[Death | JournalOutage]:
        """The deaths of the next runs and the outages in them, in order."""
        return self._pool.ahead

    @property
    def _is_transactional(self) -> bool:
        return self.handler.effect is EffectKind.TRANSACTIONAL

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
        """Send one request, let the worker do all it would, and return how the request stands.

        Args:
            value: as for `Client.send`.
            request_id: its id; None is a new one.
            attempt: 1 is the first sending, a resend has a higher one.
            duplicates: how many more records of it come, the same in all but their offsets.

        Raises:
            NeverReached: a run was to die, or lose its journal, where none came to.
        """
        name = request_id or new_request_id()
        self._send(value, key, name, attempt, duplicates)
        self._require_reached((outcome := self.outcome(name)).status)
        return outcome

    def run_with_retries(
        self, value: Value, *, request_id: str, attempt: int = 1, duplicates: int = 0
    ) -> None:
        """Send one request as `run` does, and let its retries run, until none is left.

        Raises:
            NeverReached: as for `run`. NotReal: on real servers one waits for too long.
        """
        self._send(value, None, request_id, attempt, duplicates)
        self._run_retries(request_id)
        self._require_reached(self.outcome(request_id).status)

    def _send(
        self, value: Value, key: bytes | None, name: str, attempt: int, duplicates: int
    ) -> None:
        in_s = DEADLINE_S if self.handler.deadline_s is None else self.handler.deadline_s
        deadline_at = self._deadlines.setdefault(name, epoch_ms() + int(in_s * 1000))
        for _ in range(1 + duplicates):
            headers = tuple(encode_headers(Envelope(name, attempt, deadline_at)))
            topic, content = self.handler.topic, encode_value(value)
            self.deliver(Record(topic, 0, self._offset, epoch_ms(), key, content, headers))
            self._offset += 1

    def _require_reached(self, told: Status | None = None) -> None:
        if left := [str(one.point) for one in self._ahead]:
            self._ahead.clear()
            stands = "" if told is None else f": it is {told.state} {told.message or ''}".rstrip()
            raise NeverReached(f"{self.handler.name} never came to {', '.join(left)}{stands}")

    def deliver(self, record: Record) -> None:
        """Let the worker read a record, and do all it would."""
        one = receive(
            record,
            self.handler,
            group=GROUP,
            default_deadline_s=DEADLINE_S,
            now_s=monotonic_s(),
            now_ms=record.timestamp_ms,
        )
        if isinstance(one, Delivery):
            self._status_writer.tell([status_messages.accepted(one, worker_id=WORKER)])
        self._intake.put([one])
        self._turn_until_idle()

    def advance(self, seconds: float) -> None:
        """Let time pass, and the worker run all retries that come due meanwhile.

        No clock moves: all that the journal holds becomes older, deadlines and due times too.
        Statuses keep the times that were told.

        Raises:
            NeverReached: as for `run`.
        """
        self._pass(round(seconds * 1000))
        self._require_reached()

    def _pass(self, left_ms: int) -> None:
        while True:
            next_ms = self._retries.next_in_ms()
            step_ms = left_ms if next_ms is None else min(next_ms, left_ms)
            self._age(step_ms)
            left_ms -= step_ms
            if due := self._retries.take_due():
                self._scheduler.due.put(due)
                self._turn_until_idle()
            elif left_ms <= 0:
                return

    def _run_retries(self, request_id: str) -> None:
        while (next_ms := self._retries.next_in_ms()) is not None:
            self._pass(next_ms)

    def _age(self, by_ms: int) -> None:
        self._memory.age(by_ms)
        self._retries.age(by_ms)
        self._deadlines = {name: at - by_ms for name, at in self._deadlines.items()}

    def _turn_until_idle(self) -> None:
        self._worker.turn()
        while not self._worker.idle or self._scheduler.has_more:
            if self._worker.journal_away:
                self._memory.come_back()
            self._worker.turn()
        self._pool.settle()
        self._status_writer.flush(FLUSH_S)

    def outcome(self, request_id: str) -> BenchOutcome:
        """Return how a request stands."""
        row = next(iter(self._journal.rows([request_id])), None)
        return BenchOutcome(
            status=self._store.read(request_id),
            runs=self._pool.runs[request_id],
            effects=self._pool.effects[request_id],
            commits=self._pool.commits[request_id],
            state="" if row is None else str(row.state),
            has_letter=row is not None and owes_letter(self._letters, row),
        )

    def _make_worker(self) -> Worker:
        pool: Any = self._pool
        return Worker(
            worker_id=WORKER,
            scheduler=self._scheduler,
            journal=self._journal,
            pool=pool,
            status_writer=self._status_writer,
            lease=EndlessLease(),
            limits=Limits(slots=1),
            features=(self._retries,),
            statuses=self._store,
        )


def owes_letter(letters: DeadLetterRows, row: Row) -> bool:
    """Return whether a row waits for its dead letter."""
    found = letters.page(
        OwedCursor(row.finished_at or 0), topics=[row.topic], limit=MANY, of_the_dead=True
    )
    return any(one.row.request_id == row.request_id for one in found)
