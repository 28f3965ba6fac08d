"""Who sends requests: processes with ways of their own to Redis and Kafka, and the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import NotSent, PayloadMismatch, RedisUnavailable, SendUnknown
from feedback.records.envelope import REQUEST_ID, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.status import FINAL, State
from feedback.statuses import Status
from producer_client.sending.blocking_sends import BlockingSends
from producer_client.sending.resending import ClientStep, next_step
from producer_client.submission import Submission
from tests.simulation.clock import Face
from tests.simulation.links import SimulatedSender
from tests.simulation.processes import Process, Violation
from tests.simulation.requests import Caller, Plan, nth_id
from tests.simulation.store import SimulatedStore
from tests.simulation.worker_process import HEARTBEAT_TTL_MS, RESEND_AFTER_S, SETTINGS

if TYPE_CHECKING:
    from tests.simulation.world import World

_AWAY = (NotSent, SendUnknown, RedisUnavailable)
_OVER = (State.FAILED, State.EXPIRED)
MOST_IDS = 3
MOST_RESENDS = 2


class Sender(Process):
    """A process that sends: with its own ways to Redis and Kafka."""

    def __init__(self, world: World, name: str, face: Face) -> None:
        super().__init__(name, face)
        self._world = world
        store: Any = SimulatedStore(world, self, heartbeat_ttl_ms=HEARTBEAT_TTL_MS)
        self.store = store
        sender: Any = SimulatedSender(world, self, known=store.known)
        self.sending = BlockingSends(SETTINGS.client, store, sender)


class SimulatedClient(Sender):
    """Who wants an order, and acts on what he is told.

    Told that nothing came of a request, he asks again, most often under a new id; told that nobody
    knows, under the same.

    Attributes:
        sent: its request may be in Kafka.
        ids: those under which it has asked; the last is the one that counts.
    """

    def __init__(self, world: World, plan: Plan, face: Face) -> None:
        super().__init__(world, f"client of {plan.order}", face)
        self.plan = plan
        self.sent = False
        self.ids = [plan.order]
        self._payload = StoredPayload(plan.topic, plan.key, b"5")
        self._deadline_at = 0
        self._last_send_s = 0.0
        self._resends = 0
        self._asked = -1
        self._repeats = False
        self.store.before_write = self._asks_for

    @property
    def request_id(self) -> str:
        """The id under which it asks now."""
        return self.ids[-1]

    def submit(self) -> None:
        """Send the request."""
        plan, payload = self.plan, self._payload
        if plan.is_foreign:
            self._produce()
            return
        submission = Submission(
            payload.value,
            key=payload.key,
            topic=plan.topic,
            request_id=self.request_id,
            deadline_s=plan.deadline_s,
        )
        try:
            self.sending.one(submission)
        except NotSent as error:
            self._world.note(self, f"has not sent {self.request_id}: {error.reason}")
            if plan.caller is not Caller.REPEATS:
                self._ask_anew("NotSent")
            return
        except SendUnknown as error:
            self._world.note(self, f"may have sent {self.request_id}: {error.reason}")
            if not plan.waits and self._resends < MOST_RESENDS:
                self._resends += 1
                self._repeats = True
                return
        except PayloadMismatch:
            self._give_way()
            return
        self.sent = True
        self._deadline_at = epoch_ms() + int(plan.deadline_s * 1000)
        self._last_send_s = monotonic_s()

    def _produce(self) -> None:
        """Send it as any producer does; to some brokers without a time."""
        world, plan = self._world, self.plan
        if "kafka" in world.away:
            return
        now_ms = -1 if plan.voids else world.clock.true_ms
        headers = ((REQUEST_ID, plan.order.encode()),)
        record = world.kafka.append(
            plan.topic, key=plan.key, value=self._payload.value, headers=headers, now_ms=now_ms
        )
        world.note(self, f"has produced {record!r}")
        self.sent = True

    def _asks_for(self) -> None:
        """Say what asking under the same id again means: what failed is wanted again."""
        if self._repeats and not self.sent:
            stands = self._world.redis.read(self.request_id)
            self._world.watch.asked_again(self.request_id, stands.generation)

    def look(self) -> None:
        """Look how the request is, and do what helps."""
        try:
            status = self.store.read(self.request_id)
        except RedisUnavailable:
            return
        is_others = status.payload_sha256 not in (None, self._sha256)
        if is_others or (status.state in FINAL and self._is_of_another_topic(status)):
            self._give_way()
        elif status.state in _OVER:
            self._go_on_after(status)
        else:
            self._send_if_due(status)

    @property
    def _sha256(self) -> str:
        return payload_sha256(self._payload.key, self._payload.value)

    def _is_of_another_topic(self, status: Status) -> bool:
        """Whether what is told came of another topic's request under this id.

        Raises:
            Violation: it is told as if it were this one's.
        """
        row = self._world.database.rows.get(self.request_id)
        # Where the journal has lost his own row, what stands is still what he was told of it.
        is_his = self._world.watch.has_come_of(self.request_id, self.plan.topic, status)
        is_others = row is not None and row.topic != self.plan.topic and not is_his
        if is_others and status.topic == self.plan.topic and status.generation:
            said = f"{self.request_id}: {status.state} is that of {row and row.topic}"
            raise Violation("nobody is told another topic's outcome", said)
        return status.topic not in (None, self.plan.topic)

    def _go_on_after(self, status: Status) -> None:
        if status.generation <= self._asked:
            return  # it is the failure that he has sent again, in a Redis that went back
        may_resend = self.plan.caller is Caller.RESENDS and self._resends < MOST_RESENDS
        if status.state is State.FAILED and status.resend and may_resend:
            self._asked = status.generation
            self._world.watch.asked_again(self.request_id, status.generation)
            self._resend(status)
        elif self.plan.caller is not Caller.REPEATS:
            self._ask_anew(f"{status.state} {status.code or ''}".rstrip())

    def _ask_anew(self, word: str) -> None:
        """Believe that nothing came of it, and want it still."""
        self._world.watch.over(self.request_id, word)
        if len(self.ids) < MOST_IDS:
            self.ids.append(nth_id(self.plan.order, len(self.ids) + 1))
            self._world.note(self, f"is told {word}, and asks again as {self.request_id}")
            self.sent = False
            self._resends, self._asked = 0, -1
            self._repeats = False
        else:
            self._world.note(self, f"is told {word}, and leaves")
            self.alive = False

    def _send_if_due(self, status: Status) -> None:
        step = next_step(
            status.state,
            since_send_s=monotonic_s() - self._last_send_s,
            resends=self._resends,
            resend_after_s=RESEND_AFTER_S,
        )
        if step is ClientStep.RESEND:
            self._resend(status)

    def _resend(self, status: Status) -> None:
        payload, deadline_at = self._payload, self._deadline_at
        try:
            self.sending.again(self.request_id, payload, known=status, deadline_at=deadline_at)
            self._resends += 1
        except _AWAY as error:
            self._world.note(self, f"could not send it again: {error}")
        except PayloadMismatch:
            self._give_way()
        self._last_send_s = monotonic_s()

    def _give_way(self) -> None:
        """Take another id: another payload came first under this one."""
        self._world.note(self, "finds its id taken, and leaves")
        self.alive = False
