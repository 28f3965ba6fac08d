"""The world: servers, workers, clients, and what a step of the schedule does to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

from consumer.handlers.declaration import EffectKind, Handler, Order
from consumer.journal import JournalUnavailable, Row
from feedback.errors import RedisUnavailable
from feedback.status import DISOWNED
from tests.simulation.bank import Bank
from tests.simulation.calls import Calls, Found
from tests.simulation.clients import Sender, SimulatedClient
from tests.simulation.clock import Clock, Face, show
from tests.simulation.database import Database
from tests.simulation.kafka import KafkaServer, Partition, request_id_of
from tests.simulation.losses import Losses
from tests.simulation.processes import Process
from tests.simulation.redis import RedisServer
from tests.simulation.requests import (
    HANDLERS,
    Plan,
    collapsing,
    draw_plans,
    in_order,
    order_of,
    redeclared,
)
from tests.simulation.resender import Resender
from tests.simulation.watch import Watch
from tests.simulation.worker_process import LEASE_S, WorkerProcess

LEASE_MS = int(LEASE_S * 1000)
RENEWAL_MS = LEASE_MS // 3
SESSION_MS = 6_000
SKEW_MS = 300_000
# Of the worlds: how many have workers of two versions, which declare a handler differently.
DEPLOYS = 0.2
# How many have a topic that keeps order by key, and how many keys it has.
ORDERED = 0.3
KEYS = 2
# Of the orders: how many come from some other producer.
FOREIGN = 0.1


class World(Calls):
    """Everything, made from a seed.

    Attributes:
        handlers: all that a worker declares.
        redeclared: the handlers that every second worker declares otherwise.
        slots: the place of each worker, with the process that runs there now.
    """

    def __init__(self, seed: int, *, tells: bool = False) -> None:
        draw = Random(seed)
        random.seed(seed)  # the product draws its pauses from it
        super().__init__(Clock(), tells=tells)
        show(self.clock)
        self.watch = Watch(self)
        self.bank = Bank(self.watch.charged)
        self.plans = {plan.order: plan for plan in draw_plans(draw, draw.randint(2, 5))}
        topics = sorted({plan.topic for plan in self.plans.values()})
        self.handlers = dict(HANDLERS)
        self._keep_order(Random(seed ^ 0x0DE), topics)
        self._let_others_send(Random(seed ^ 0xF0E))
        self.kafka = KafkaServer(topics, partitions=draw.choice((1, 2)))
        self.redis = RedisServer(self.clock, self.watch.told)
        skew_ms = draw.choice((0, 0, 40_000, -40_000))
        self.database = Database(lambda: self.clock.true_ms + skew_ms, self.watch.changed)
        self.losses = Losses(self.database, self.bank)
        self.journal_back_ms = -1
        self.journal_outage_ms = 0
        self.was_emptied = False
        self.faces = [_draw_face(draw) for _ in range(draw.choice((2, 2, 3)))]
        self.shape = (draw.choice((1, 2)), draw.choice((1, 1, 2)))
        self.redeclared: dict[str, Handler] = {}
        if draw.random() < DEPLOYS:
            topic = draw.choice(topics)
            self.redeclared[topic] = redeclared(self.handlers[topic], draw)
        self.slots: list[WorkerProcess | None] = [None] * len(self.faces)
        self.processes: dict[str, WorkerProcess] = {}
        self.group: list[str] = []
        self._gone_ms: dict[str, int] = {}
        self.clients = [SimulatedClient(self, one, _draw_face(draw)) for one in self.plans.values()]
        self.resender = Resender(self, _draw_face(draw))
        for place in range(len(self.slots)):
            self.start_worker(place)

    def _keep_order(self, draw: Random, topics: Sequence[str]) -> None:
        """Let one of the topics keep order, in some worlds, or collapse as well."""
        if draw.random() >= ORDERED:
            return
        topic = draw.choice(topics)
        handler = self.handlers[topic]
        collapses = draw.random() < 0.5 and handler.effect is not EffectKind.TRANSACTIONAL
        self.handlers[topic] = collapsing(handler) if collapses else in_order(handler)
        for order, plan in self.plans.items():
            if plan.topic == topic:
                key, applies = b"k%d" % draw.randrange(KEYS), draw.random() < 0.8
                self.plans[order] = replace(plan, key=key, applies=applies)

    def _let_others_send(self, draw: Random) -> None:
        """Let some orders come from producers that are none of ours."""
        for order, plan in self.plans.items():
            if draw.random() < FOREIGN:
                self.plans[order] = replace(plan, is_foreign=True, waits=False)

    def key_of(self, row: Row) -> bytes | None:
        """Return the key that a request keeps order in; None when it keeps none."""
        keeps = self.handlers[row.topic].order is Order.KEY
        return row.message_key if keeps else None

    # workers -------------------------------------------------------------------------------

    @property
    def workers(self) -> Iterator[WorkerProcess]:
        """Yield the workers that live, frozen ones too."""
        return (one for one in self.slots if one is not None)

    def start_worker(self, place: int) -> None:
        """Start a worker where none is."""
        children, slots = self.shape
        name = f"w{place}.{sum(one.startswith(f'w{place}.') for one in self.processes)}"
        is_new = bool(self.redeclared) and len(self.processes) % 2 == 1
        # What is made with it reads the clocks of its own host.
        face, self.clock.face = self.clock.face, self.faces[place]
        process = WorkerProcess(
            self,
            name,
            self.faces[place],
            handlers={**self.handlers, **(self.redeclared if is_new else {})},
            children=children,
            slots=slots,
        )
        self.clock.face = face
        self.processes[name] = process

        def start() -> None:
            try:
                process.start()
            except (JournalUnavailable, RedisUnavailable):
                process.alive = False

        self.run(process, "main", start)
        if process.alive:
            new = [f"{one.effect}-{one.in_doubt}" for one in self.redeclared.values() if is_new]
            self.note(process, f"has started{', with ' if new else ''}{', '.join(new)}")
            process.next_renewal_ms = self.clock.true_ms + RENEWAL_MS
            self.slots[place] = process
            self.rebalance(0, eager=False)

    def bury(self, process: Process) -> None:
        """Let a process be dead; Kafka and its lease learn of it later."""
        if process.alive:
            self.note(process, "dies")
            process.alive = False
            self._gone_ms[process.name] = self.clock.true_ms
            self.slots = [None if one is process else one for one in self.slots]

    def leave(self, process: WorkerProcess) -> None:
        """Let a worker that has drained end."""
        for partition, owner in self.kafka.owners.items():
            if owner == process.name:
                self._hand_over(owner, partition)
        self.run(process, "main", process.close)
        self.bury(process)

    def rebalance(self, turn: int, *, eager: bool) -> None:
        """Give the partitions to the workers that can read."""
        members = [one for one in self.workers if not one.leaving and one.frozen_ms is None]
        self.group = [one.name for one in members]
        for partition, owner in self.kafka.rebalanced(self.group, turn).items():
            before = self.kafka.owners[partition]
            if eager or owner != before:
                self._hand_over(before, partition)
        self.kafka.rebalance(self.group, turn, eager=eager)
        readers = {
            owner: [one for one, is_read_by in self.kafka.owners.items() if is_read_by == owner]
            for owner in self.group
        }
        self.note(None, f"the group reads {readers}{' from what is committed' * eager}")

    def _hand_over(self, name: str | None, partition: Partition) -> None:
        """Let a worker that can commit once more what it gives away of a partition."""
        one = None if name is None else self.processes[name]
        if one is None or not one.may_run("intake") or "kafka" in self.away:
            return
        again = one.worker.in_hand.first_unclaimed([partition])
        if again:
            self.note(one, f"hands over {again}")
            self.kafka.commit(again)

    def is_member(self, name: str) -> bool:
        """Whether the group still counts a process among its members."""
        return name in self.group

    def was_kept_from_renewing(self, worker_id: str) -> bool:
        """Whether a worker lives, and only the database's outage ended its lease."""
        process = self.processes[worker_id.removesuffix(DISOWNED)]
        if not process.alive or process.frozen_ms is not None:
            return False
        now = self.clock.true_ms
        was_frozen = now - process.woken_ms < self.journal_outage_ms + 2 * LEASE_MS
        is_just_back = now - self.journal_back_ms < LEASE_MS
        return is_just_back and self.journal_outage_ms >= LEASE_MS and not was_frozen

    def plan_of(self, request_id: str) -> Plan:
        """Return what was decided about a request."""
        return self.plans[order_of(request_id)]

    def is_disputed(self, request_id: str) -> bool:
        """Whether records of two payloads, or of two topics, have this id."""
        records = (one for log in self.kafka.logs.values() for one in log)
        kinds = {(one.topic, one.value) for one in records if request_id_of(one) == request_id}
        return len(kinds) > 1

    @property
    def senders(self) -> list[Sender]:
        """The clients, and the resender behind them."""
        return [*self.clients, self.resender]

    # time and servers ----------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Let time pass; those who can renew do so when it is due."""
        until = self.clock.true_ms + ms
        while self.clock.true_ms < until:
            self.clock.true_ms = min(until, self.clock.true_ms + 500)
            for process in list(self.workers):
                if self.clock.true_ms < process.next_renewal_ms or process.frozen_ms is not None:
                    continue
                process.next_renewal_ms = self.clock.true_ms + RENEWAL_MS
                process.pool.keep_times()
                for thread, action in (("lease", process.renew), ("heartbeat", process.beat)):
                    if process.may_run(thread):
                        self.run(process, thread, action)
            self._notice_members()

    def _notice_members(self) -> None:
        now = self.clock.true_ms
        for name in self.group:
            process = self.processes[name]
            gone_ms = self._gone_ms.get(name) if not process.alive else process.frozen_ms
            if process.leaving or (gone_ms is not None and now - gone_ms > SESSION_MS):
                self.rebalance(0, eager=False)
                return
        can_join = (one for one in self.workers if not one.leaving and one.frozen_ms is None)
        if any(one.name not in self.group for one in can_join):
            self.rebalance(0, eager=False)

    def take_away(self, server: str) -> None:
        """Let a server answer nobody."""
        self.away[server] = self.clock.true_ms
        self.note(None, f"{server} is away")

    def bring_back(self, server: str) -> None:
        """Let a server answer again."""
        since_ms = self.away.pop(server)
        if server == "journal":
            self.journal_back_ms = self.clock.true_ms
            self.journal_outage_ms = self.clock.true_ms - since_ms
        self.note(None, f"{server} is back")

    def carry_out(self, server: str, action: Callable[[], Found]) -> Found:
        """Let a server do what it is asked; a database may forget it later."""
        if server == "journal":
            self.losses.before_commit(self.clock.true_ms)
        return action()

    def forget_commits(self, commits: int) -> None:
        """Let the database forget what it has acknowledged last."""
        before = {*self.database.rows}
        rows = self.losses.forget(commits, self.clock.true_ms)
        if self.database.has_served(self.redis.contents):
            known = before | self.redis.hashes.keys()
            self.losses.back_untold |= {
                (one.request_id, one.generation)
                for one in self.database.rows.values()
                if one.published_at and one.request_id not in known
            }
        said = ", ".join(sorted(rows)) or "of no request"
        self.note(None, f"the database forgets its last {commits} commits: {said}")

    def lose_statuses(self) -> None:
        """Note that Redis has lost some: workers tell it again all that the journal has."""
        self.was_emptied = True
        self.losses.back_untold.clear()

    def land_late(self) -> None:
        """Carry out what was given up by those who asked for it."""
        late, self.late = self.late, []
        for action in late:
            action()
        if self.kafka.land_late_commits() or late:
            self.note(None, "what was late is carried out")


def _draw_face(draw: Random) -> Face:
    boot_ms = Clock().true_ms - draw.randint(10_000, 10_000_000)
    return Face(skew_ms=draw.choice((0, 0, SKEW_MS, -SKEW_MS)), boot_ms=boot_ms)
