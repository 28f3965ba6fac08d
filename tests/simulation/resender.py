"""The resender: the product's own plan and resends, over the simulated due set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, NotSent, RedisUnavailable, SendUnknown
from feedback.records.envelope import Record
from feedback.redis.deadlines import TakenRequests
from feedback.status import FINAL, State
from feedback.statuses import Status
from producer_client.resender.payloads import Found, PayloadFinder
from producer_client.resender.resend_plan import resend_plan_of
from producer_client.resender.resends import ResendBatch, Resends
from tests.simulation.clients import Sender
from tests.simulation.clock import Face
from tests.simulation.kafka import request_id_of
from tests.simulation.worker_process import RESEND_AFTER_S

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE_S = 5.0


class SimulatedDeadlines:
    """The due set, by the clock of Redis; what is lost is due at once."""

    def __init__(self, world: World, sender: Sender) -> None:
        self._world = world
        self._sender = sender

    def _call(self, what: str, action: Any) -> Any:
        return self._world.call(self._sender, "redis", what, action, RedisUnavailable)

    def take(self) -> TakenRequests:
        """Lease what is due."""

        def take() -> TakenRequests:
            now, scores = self._world.clock.true_ms, self._world.redis.deadlines
            due = tuple(one for one, at in scores.items() if at <= now or self._is_lost(one))
            unfinished = frozenset(self._world.redis.leased.intersection(due))
            self._world.redis.leased.update(due)
            scores.update(dict.fromkeys(due, now + int(LEASE_S * 1000)))
            return TakenRequests(now, "lease", due, unfinished, 0, self._world.redis.run_id)

        taken: TakenRequests = self._call("~looks what is due", take)
        return taken

    def settle(
        self, taken: TakenRequests, looks_s: Mapping[str, float], *, fixed: bool = False
    ) -> None:
        """Set the next looks."""

        def settle() -> None:
            now, scores = self._world.clock.true_ms, self._world.redis.deadlines
            for request_id, look_s in looks_s.items():
                if request_id in scores:
                    scores[request_id] = now + int(look_s * 1000)
                if not fixed:
                    self._world.redis.leased.discard(request_id)

        if looks_s:
            self._call("~sets the next looks", settle)

    def remove(self, taken: TakenRequests, request_ids: Sequence[str]) -> None:
        """Forget what has ended, unless it was opened again meanwhile."""

        def remove() -> None:
            for request_id in request_ids:
                found = self._world.redis.hashes.get(request_id)
                is_open = found is not None and State(found["status"]) not in FINAL
                if not is_open:
                    self._world.redis.deadlines.pop(request_id, None)
                self._world.redis.leased.discard(request_id)

        if request_ids:
            self._call("~forgets what has ended", remove)

    def _is_lost(self, request_id: str) -> bool:
        redis = self._world.redis
        is_accepted = redis.hashes.get(request_id, {}).get("status") == State.ACCEPTED
        return is_accepted and redis.read(request_id).state is State.LOST


class SimulatedReader:
    """Reads records by their coordinates."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, topic: str, partition: int, offset: int, *, timeout_s: float) -> Record | None:
        """Return the record.

        Raises:
            KafkaUnavailable: Kafka is away.
        """
        if "kafka" in self._world.away:
            raise KafkaUnavailable("Kafka is away")
        return self._world.kafka.logs[topic, partition][offset]


class SimulatedSearch:
    """Looks in Kafka for the records of what an older Redis brought back."""

    def __init__(self, world: World, sender: Sender) -> None:
        self._world = world
        self._sender = sender

    def search(self, topic: str, statuses: Sequence[Status]) -> None:
        """Mark what Kafka has of it, and have that looked at."""
        wanted = {one.request_id for one in statuses}
        records: list[Record] = self._world.call(
            self._sender, "kafka", "~searches", lambda: self._readable(topic), KafkaUnavailable
        )
        for record in records:
            if request_id_of(record) in wanted:
                self._world.call(
                    self._sender,
                    "redis",
                    f"marks {record!r} as sent",
                    partial(self._mark, record),
                    RedisUnavailable,
                )

    def _readable(self, topic: str) -> list[Record]:
        kafka = self._world.kafka
        found: list[Record] = []
        for (name, _), log in kafka.logs.items():
            if name == topic:
                stable = takewhile(kafka.is_stable, log)
                found += filter(kafka.counts, stable)
        return found

    def _mark(self, record: Record) -> None:
        redis = self._world.redis
        if redis.mark_sent(record):
            redis.deadlines[request_id_of(record)] = self._world.clock.true_ms


class SimulatedPayloads(PayloadFinder):
    """What is sent again; one look at Redis for each."""

    def groups(self, statuses: Sequence[Status]) -> Iterator[Sequence[Status]]:
        """Yield all of them: they are small."""
        yield statuses

    def of(self, statuses: Sequence[Status]) -> list[Found]:
        """Return what to send for each."""
        deadline_s = monotonic_s() + 2.0
        kept = [self._store.kept_payload(one.request_id) for one in statuses]
        return [
            payload or self._from_kafka(status, deadline_s)
            for payload, status in zip(kept, statuses, strict=True)
        ]


class Resender(Sender):
    """Sends again what is lost or overdue."""

    def __init__(self, world: World, face: Face) -> None:
        super().__init__(world, "resender", face)
        deadlines: Any = SimulatedDeadlines(world, self)
        reader: Any = SimulatedReader(world)
        self._deadlines = deadlines
        self._search = SimulatedSearch(world, self)
        self._resends = Resends(
            store=self.store,
            deadlines=deadlines,
            payloads=SimulatedPayloads(self.store, reader),
            sending=self.sending,
            resend_after_s=RESEND_AFTER_S,
            put_off_s=LEASE_S,
            on_resent=lambda resent: world.note(
                self, f"has resent {resent.request_id}, attempt {resent.attempt}: {resent.why}"
            ),
            on_left=lambda at_s: None,
        )

    def look(self) -> None:
        """Do one pass over what is due."""
        with suppress(RedisUnavailable, KafkaUnavailable, NotSent, SendUnknown):
            taken = self._deadlines.take()
            statuses = self.store.read_many(taken.request_ids)
            plan = resend_plan_of(statuses, taken, resend_after_s=RESEND_AFTER_S)
            self._deadlines.settle(taken, plan.looks_s)
            self._deadlines.remove(taken, plan.ended)
            for topic, statuses in plan.searches.items():
                self._search.search(topic, statuses)
            for wanted in plan.resends.values():
                sure_until_s = monotonic_s() + LEASE_S
                self._resends.send(ResendBatch(taken, wanted, sure_until_s, sure_until_s))
