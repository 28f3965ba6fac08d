"""A user's whole service in one process: what a test of it starts, sends to, and disturbs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from consumer.features.dead_letters.strategies import strategies
from consumer.features.outcomes.outcomes import outcome_topics
from consumer.handlers.declaration import EffectKind
from consumer.journal import Journal, JournalState, Row
from consumer.journal.owed_rows import DeadLetterRows, OutcomeRows
from consumer.journal.waiting import WaitingRows
from consumer.ops.needed_topics import look_at_topics
from consumer.ops.startup import load_registry
from feedback.kafka.memory.engine import memory_broker
from feedback.records.envelope import Record, decode_headers
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings, load
from onceward.servers.polling import eventually
from onceward.testing.bench import owes_letter
from onceward.testing.bench_outcome import BenchOutcome, NotCovered, NotReal
from onceward.testing.deaths import Death, NeverReached, Point
from onceward.testing.real.child_plan import VARIABLE, ChildPlan
from onceward.testing.real.desk import PointDesk
from onceward.testing.real.journal import FileJournal
from onceward.testing.real.switch import real_servers
from onceward.testing.service.leading import (
    Addresses,
    environment,
    handler_module,
    leading_to,
    variables,
)
from onceward.testing.service.redis_server import RedisInProcess
from onceward.testing.service.running_worker import RunningWorker
from producer_client.client.client import Client
from producer_client.outbox.schema import migrate as migrate_outbox

KafkaAbsence = Literal["refuses", "hangs", "loses answers"]
SETTLE_S = 30.0
_WATCHER = "onceward.testing.service.child"
# The environment leads to one service.
_OPENED: list[MemoryService] = []


class MemoryService:
    """Kafka, Redis, a journal and a worker of your handlers, in this process; for one test.

    Clients that are made in the block lead here, also those that your own code makes from a file
    or the environment: `Client()`, `AsyncClient()`, the pages of `onceward.http`. All rules are
    those of production, since the worker is the real one, with a real child process.

    Args:
        handlers: modules by their names, or functions of modules: all handlers of these run. None:
            those of the settings.
        settings: a `Settings`, a TOML file, or None for the environment and defaults. Its addresses
            are replaced, and alerts go nowhere. No relay sends the rows of an outbox.
        topics: further topics to make.

    Attributes:
        settings: those that lead here.

    Raises:
        NotCovered: a child cannot import a handler, or there is another service in this process.
        NotReal: tests run on real servers.
        NotAvailable: fakeredis is not installed.
        OncewardError: the worker could not start.
    """

    def __init__(
        self,
        *handlers: str | Callable[..., Any],
        settings: Settings | Path | str | None = None,
        topics: Iterable[str] = (),
    ) -> None:
        if real_servers() is not None:
            raise NotReal("MemoryService: its servers are in the test's process")
        if _OPENED:
            raise NotCovered("MemoryService: a process has one at a time")
        given = settings if isinstance(settings, Settings) else load(settings)
        modules = tuple(dict.fromkeys(map(handler_module, handlers))) or given.worker.handlers
        self._read_again = 0
        self._is_closed = False
        with ExitStack() as ends:
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="onceward-test-")))
            self._broker = ends.enter_context(memory_broker())
            self._redis = RedisInProcess()
            ends.callback(self._redis.close)
            self._database = FileJournal(folder / "journal.db")
            ends.callback(self._database.close)
            self._desk = PointDesk(folder / "desk", lose_journal=self._database.go_away)
            ends.callback(self._desk.close)
            outbox = f"sqlite:///{folder / 'outbox.db'}"
            migrate_outbox(outbox)
            there = Addresses(self._broker.address, self._redis.url, self._database.url, outbox)
            self.settings = leading_to(there, given, (*modules, _WATCHER))
            plan = ChildPlan("", "", "", "", desk=str(folder / "desk"))
            ends.enter_context(environment(variables(there) | {VARIABLE: plan.encode()}))
            self._open_stores(ends)
            registry = load_registry(self.settings)
            self._handlers = {one.topic: one for one in registry.handlers}
            # With the topics of which the worker writes such records.
            self._owed: tuple[tuple[WaitingRows, Collection[str]], ...] = (
                (self._letters, strategies(self.settings, self._handlers).keys()),
                (self._outcomes, outcome_topics(registry.handlers).keys()),
            )
            list(look_at_topics(self.settings, registry.handlers, create=True))
            for topic in {*topics} - {*self._broker.topics}:
                self._broker.make_topic(topic)
            self._worker = RunningWorker(self.settings)
            ends.callback(self._worker.stop)
            _OPENED.append(self)
            ends.callback(_OPENED.remove, self)
            self._ends = ends.pop_all()

    def _open_stores(self, ends: ExitStack) -> None:
        group, redis = self.settings.kafka.group, self.settings.redis
        self._store = StatusStore(connect(redis), group, redis)
        ends.callback(self._store.close)
        self._journal = Journal(self._database.url, group=group, worker_id="test")
        ends.callback(self._journal.close)
        self._letters = DeadLetterRows(self._database.url, group=group, worker_id="test")
        ends.callback(self._letters.close)
        self._outcomes = OutcomeRows(self._database.url, group=group, worker_id="test")
        ends.callback(self._outcomes.close)

    def __enter__(self) -> MemoryService:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if error is None:
            self._require_reached()

    def close(self) -> None:
        """Drain the worker, and forget all that was sent; nothing where it is closed already.

        Raises:
            OncewardError: the worker had ended before, by a fault.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._database.come_back()
        self._redis.come_back()
        self._ends.close()

    # sending and looking -----------------------------------------------------------------------

    def client(self, **given: Any) -> Client:
        """Return a client of this service, closed with it.

        Args:
            given: as of `Client`, without its settings.
        """
        made = Client(self.settings, **given)
        self._ends.callback(made.close)
        return made

    def outcome(self, request_id: str) -> BenchOutcome:
        """Return how a request stands, and how often it ran; see `BenchOutcome`."""
        row = next(iter(self._journal.rows([request_id])), None)
        return BenchOutcome(
            status=self._store.read(request_id),
            runs=self._desk.runs[request_id],
            effects=self._desk.effects[request_id],
            commits=self._commits(row),
            state="" if row is None else str(row.state),
            has_letter=row is not None
            and (row.dead_letter_at is not None or owes_letter(self._letters, row)),
        )

    def records(self, topic: str) -> list[Record]:
        """Return the records of a topic, as of dead letters or outcomes."""
        return self._broker.records(topic)

    def settle(self, timeout_s: float = SETTLE_S) -> None:
        """Return when the worker has read all that was sent, and has nothing to do.

        Dead letters and outcomes are written by then, which may take Kafka and the database.
        Retries that wait for their time are not waited for.

        Raises:
            OncewardError: the worker has ended.
            TimeoutError: it has more to do.
        """
        eventually(self._is_settled, timeout_s=timeout_s, what="a worker with nothing to do")

    # disturbing --------------------------------------------------------------------------------

    @contextmanager
    def kafka_away(self, how: KafkaAbsence = "refuses") -> Iterator[None]:
        """Let Kafka be away for clients and worker, for the length of the block.

        A send ends after 0.1 s, whatever `send_timeout_s` says.

        Args:
            how: it refuses connections; or hangs, and does later what it was asked meanwhile; or it
                does all that it is asked, and its answers are lost.
        """
        ways = {
            "refuses": self._broker.down,
            "hangs": self._broker.paused,
            "loses answers": self._broker.mute,
        }
        with ways[how]():
            yield

    @contextmanager
    def redis_away(self) -> Iterator[None]:
        """Let Redis refuse connections for the length of the block; it keeps its data."""
        self._redis.go_away()
        try:
            yield
        finally:
            self._redis.come_back()

    @contextmanager
    def journal_away(self) -> Iterator[None]:
        """Let the database answer nobody who writes, for the length of the block."""
        self._database.go_away()
        try:
            yield
        finally:
            self._database.come_back()

    def duplicate(self, request_id: str) -> None:
        """Write the last record of a request once more, the same in all but its offset."""
        record = self._record_of(request_id)
        self._broker.append(
            record.topic,
            record.value,
            partition=record.partition,
            key=record.key,
            headers=record.headers,
        )

    def redeliver(self, request_id: str) -> None:
        """Let the worker read the last record of a request again, and all behind it.

        As where Kafka has lost the commits of its group.
        """
        record = self._record_of(request_id)
        partition = (record.topic, record.partition)
        self.settle()
        self._read_again += sum(
            one.offset >= record.offset and (one.topic, one.partition) == partition
            for one in self._sent()
        )
        self._broker.rewind(self.settings.kafka.group, partition, record.offset)

    def die_before_effect(self) -> None:
        """Let the child of the next run be killed before anything has happened outside."""
        self._desk.ahead.append(Death(Point.BEFORE_EFFECT))

    def die_in_effect(self) -> None:
        """Let it be killed within its effect; see `Bench.die_in_effect`."""
        self._desk.ahead.append(Death(Point.IN_EFFECT))

    def die_after_effect(self) -> None:
        """Let it be killed when the handler has returned, before anybody heard of it."""
        self._desk.ahead.append(Death(Point.AFTER_EFFECT))

    # -------------------------------------------------------------------------------------------

    def _commits(self, row: Row | None) -> int:
        """Return how many transactional runs were committed: each wrote its success with it."""
        if row is None or self._handlers[row.topic].effect is not EffectKind.TRANSACTIONAL:
            return 0
        earlier = self._database.earlier_successes(row.request_id)
        return earlier + (row.state == JournalState.SUCCEEDED)

    def _require_reached(self) -> None:
        if left := [str(one.point) for one in self._desk.ahead]:
            raise NeverReached(f"no run came to {', '.join(left)}")

    def _is_settled(self) -> bool:
        sent = [*self._sent()]
        # Counted where it is committed and waits here, else somebody might see neither.
        if self._worker.deliveries < len(sent) + self._read_again:
            return False
        if not self._worker.has_none_of(frozenset((*one[:3],) for one in sent)):
            return False
        return not any(one.topic in topics for rows, topics in self._owed for one in rows.waiting())

    def _sent(self) -> Iterator[Record]:
        for topic in self._handlers:
            yield from self._broker.records(topic)

    def _record_of(self, request_id: str) -> Record:
        found = [one for one in self._sent() if decode_headers(one).request_id == request_id]
        if not found:
            raise LookupError(f"no topic of these handlers has a record of {request_id}")
        return found[-1]
