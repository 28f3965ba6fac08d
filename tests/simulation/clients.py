"""Who sends requests: processes with ways of their own to Redis and Kafka, and the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import NotSent, PayloadMismatch, RedisUnavailable, SendUnknown
from feedback.kept import KeptPayload
from feedback.statuses import Status
from producer_client.resending import Step, next_step
from producer_client.sending import Sending
from producer_client.submission import Submission
from tests.simulation.clock import Face
from tests.simulation.links import SimulatedSender
from tests.simulation.processes import Process
from tests.simulation.requests import Plan
from tests.simulation.store import SimulatedStore
from tests.simulation.worker_process import HEARTBEAT_TTL_MS, RESEND_AFTER_S, SETTINGS

if TYPE_CHECKING:
    from tests.simulation.world import World

_AWAY = (NotSent, SendUnknown, RedisUnavailable)


class Sender(Process):
    """A process that sends: with its own ways to Redis and Kafka."""

    def __init__(self, world: World, name: str, face: Face) -> None:
        super().__init__(name, face)
        self._world = world
        store: Any = SimulatedStore(world, self, heartbeat_ttl_ms=HEARTBEAT_TTL_MS)
        self.store = store
        sender: Any = SimulatedSender(world, self)
        self.sending = Sending(SETTINGS.client, store, sender)


class SimulatedClient(Sender):
    """The client of one request.

    Attributes:
        sent: its request may be in Kafka.
    """

    def __init__(self, world: World, plan: Plan, face: Face) -> None:
        super().__init__(world, f"client of {plan.request_id}", face)
        self.plan = plan
        self.sent = False
        self._payload = KeptPayload(plan.topic, plan.request_id.encode(), b"5")
        self._deadline_at = 0
        self._last_send_s = 0.0
        self._resends = 0

    def submit(self) -> None:
        """Send the request; with the same id again while it is known not to be sent."""
        plan, payload = self.plan, self._payload
        submission = Submission(
            payload.value,
            key=payload.key,
            topic=plan.topic,
            request_id=plan.request_id,
            deadline_s=plan.deadline_s,
        )
        try:
            self.sending.one(submission)
        except NotSent as error:
            self._world.note(self, f"has not sent it: {error.reason}")
            return
        except SendUnknown as error:
            self._world.note(self, f"may have sent it: {error.reason}")
        except PayloadMismatch:
            self._give_way()
            return
        self.sent = True
        self._deadline_at = epoch_ms() + int(plan.deadline_s * 1000)
        self._last_send_s = monotonic_s()

    def look(self) -> None:
        """Look how the request is, and send it again where that helps."""
        try:
            status = self.store.read(self.plan.request_id)
        except RedisUnavailable:
            return
        step = next_step(
            status.state,
            since_send_s=monotonic_s() - self._last_send_s,
            resends=self._resends,
            resend_after_s=RESEND_AFTER_S,
        )
        if step is Step.RESEND:
            self._resend(status)

    def _resend(self, status: Status) -> None:
        payload, deadline_at = self._payload, self._deadline_at
        try:
            self.sending.again(self.plan.request_id, payload, known=status, deadline_at=deadline_at)
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
