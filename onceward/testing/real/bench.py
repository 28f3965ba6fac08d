"""A bench whose worker is a process, on real servers."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from consumer.journal import Journal, JournalState, Row
from consumer.journal.owed_rows import DeadLetterRows
from feedback.clock import epoch_ms
from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import Record
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection
from onceward.servers.polling import eventually
from onceward.testing.bench import Bench, owes_letter
from onceward.testing.bench_outcome import BenchOutcome, NotReal, covered
from onceward.testing.deaths import Death, JournalOutage, Point
from onceward.testing.real.child_plan import ChildPlan
from onceward.testing.real.desk import PointDesk
from onceward.testing.real.journal import FileJournal
from onceward.testing.real.servers import RealServers
from onceward.testing.real.switch import real_servers
from onceward.testing.real.worker import BenchWorker

IDLE_S = 90.0
KAFKA_S = 10.0
KEYS_AT_ONCE = 500
LONGEST_HANG_S = 10.0


class RealBench(Bench):
    """Runs one handler in a real worker; see `Bench`.

    Its worker, its topics, its group and its keys in Redis are gone when it is closed.

    Raises:
        NotReal: a child cannot import the handler.
        NotAvailable: a server is away, or the worker does not start.
    """

    def __init__(self, function: Callable[..., Any], *, store: StatusStore | None = None) -> None:
        servers = real_servers()
        assert servers is not None  # else `Bench` is one in memory
        self.handler = covered(function)
        name = f"onceward-test-{secrets.token_hex(6)}"
        self._topic, self._group = f"{name}-{self.handler.topic[:80]}", name
        self._kafka = servers.settings.kafka
        self._sent = 0
        self._deadlines: dict[str, int] = {}
        self._offset = 0
        folder = servers.keeper.folder
        plan = ChildPlan.of(function, topic=self._topic, desk=str(folder / f"{name}.desk"))
        with ExitStack() as ends:
            self._database = FileJournal(folder / f"{name}.db")
            ends.callback(self._database.close)
            self._desk = PointDesk(folder / f"{name}.desk", lose_journal=self._database.go_away)
            ends.callback(self._desk.close)
            self._open_stores(servers, ends)
            KafkaTopics(self._kafka, create=True).ensure(
                self._topic, like=self._topic, partitions=1, replication=1
            )
            ends.callback(_remove_topics, self._kafka, self._topic, self._group)
            self._worker_process = BenchWorker(
                servers, group=self._group, journal_url=self._database.url, plan=plan
            )
            ends.callback(self._worker_process.close)
            self._ends = ends.pop_all()

    def _open_stores(self, servers: RealServers, ends: ExitStack) -> None:
        redis = servers.settings.redis
        self._store = StatusStore(connect(redis), self._group, redis)
        ends.callback(_close_store, self._store)
        url = self._database.url
        self._journal = Journal(url, group=self._group, worker_id="bench")
        ends.callback(self._journal.close)
        self._letters = DeadLetterRows(url, group=self._group, worker_id="bench")
        ends.callback(self._letters.close)
        self._writer = KafkaWriter(self._kafka, timeout_s=KAFKA_S)
        ends.callback(self._writer.close)

    def close(self) -> None:
        """End its worker, and remove all that it had on the servers."""
        self._ends.close()

    @property
    def _ahead(self) -> deque[Death | JournalOutage]:
        return self._desk.ahead

    def time_limit(self, point: Point = Point.BEFORE_EFFECT) -> None:
        """Let the next run hang at this point, until its child is killed for its time limit.

        Raises:
            NotReal: it has none, or one for which no test waits.
        """
        limit_s = self.handler.time_limit_s
        if limit_s is None or limit_s > LONGEST_HANG_S:
            raise NotReal(
                f"{self.handler.name}: a real run hangs for its whole time_limit_s={limit_s}; "
                f"declare at most {LONGEST_HANG_S:g}"
            )
        self._ahead.append(Death(point, is_overdue=True))

    def journal_away(self, point: Point | None = None) -> None:
        """Let the journal be away until the worker has noticed; see `Bench`."""
        if point is None:
            self._database.go_away()
        else:
            super().journal_away(point)

    def pause(self, point: Point = Point.BEFORE_EFFECT) -> None:
        """Refuse: a worker that wakes up too late would have to outlive its lease.

        Raises:
            NotReal: always.
        """
        raise NotReal("pause: on real servers the worker of a bench has no peer that takes over")

    def advance(self, seconds: float) -> None:
        """Refuse: no test moves the clocks of real servers.

        Raises:
            NotReal: always.
        """
        raise NotReal("advance: the clocks of real servers are nobody's to move")

    def deliver(self, record: Record) -> None:
        """Send a record, and wait until the worker has done all that follows.

        Raises:
            NotAvailable: Kafka did not take it, or the worker has ended.
            TimeoutError: the worker does not come to an end.
        """
        (error,) = self._writer.write(
            [Outgoing(self._topic, 0, record.key, record.value, tuple(record.headers))]
        )
        if error is not None:
            raise error
        self._sent += 1
        eventually(self._is_idle, timeout_s=IDLE_S, what=f"the end of what {self.handler.name} got")

    def _is_idle(self) -> bool:
        if self._database.is_away:
            if self._worker_process.journal_away:
                self._database.come_back()
            return False
        return self._worker_process.has_read(self._sent)

    def _run_retries(self, request_id: str) -> None:
        eventually(
            lambda: not self._goes_on(request_id),
            timeout_s=IDLE_S,
            what=f"the end of the retries of {self.handler.name}",
        )

    def _goes_on(self, request_id: str) -> bool:
        row = self._row(request_id)
        if row is None or row.state not in (JournalState.RETRYING, JournalState.CLAIMED):
            return not self._is_idle()
        wait_ms = (row.due_at or 0) - epoch_ms()
        if row.state == JournalState.RETRYING and wait_ms > LONGEST_HANG_S * 1000:
            raise NotReal(
                f"{self.handler.name}: a real retry waits for its {math.ceil(wait_ms / 1000)} s; "
                f"declare at most {LONGEST_HANG_S:g}"
            )
        return True

    def outcome(self, request_id: str) -> BenchOutcome:
        """Return how a request stands."""
        row = self._row(request_id)
        return BenchOutcome(
            status=self._store.read(request_id),
            runs=self._desk.runs[request_id],
            effects=self._desk.effects[request_id],
            commits=self._commits(row),
            state="" if row is None else str(row.state),
            has_letter=row is not None
            and (row.dead_letter_at is not None or owes_letter(self._letters, row)),
        )

    def _row(self, request_id: str) -> Row | None:
        return next(iter(self._journal.rows([request_id])), None)

    def _commits(self, row: Row | None) -> int:
        """Return how many transactional runs were committed: each wrote its success with it."""
        if row is None or not self._is_transactional:
            return 0
        earlier = self._database.earlier_successes(row.request_id)
        return earlier + (row.state == JournalState.SUCCEEDED)


def _close_store(store: StatusStore) -> None:
    """Remove the group's keys, and close."""
    with suppress(NotAvailable):
        keys = list(store.redis.scan_iter(f"{store.prefix}*", count=KEYS_AT_ONCE))
        if keys:
            store.redis.delete(*keys)
    store.close()


def _remove_topics(settings: KafkaSection, topic: str, group: str) -> None:
    """Remove a topic, those made beside it, and its groups; where Kafka is away they stay."""
    with (
        suppress(NotAvailable),
        administrator(settings, timeout_s=KAFKA_S) as admin,
    ):
        admin.delete_topics([one for one in admin.topics() if one.startswith(topic)])
        admin.delete_groups([one for one in admin.groups() if one.startswith(group)])
