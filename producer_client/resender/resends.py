"""Sends one batch of requests again: find payloads, write PENDING, hand over, set the next checks.

If the process dies in between, the batch is due again when its lease ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from feedback.clock import monotonic_s
from feedback.errors import (
    KafkaUnavailable,
    NotAvailable,
    NotSent,
    OncewardError,
    RedisUnavailable,
    SendUnknown,
)
from feedback.kafka.send_errors import TopicAway, TopicForbidden
from feedback.logs import EventLog
from feedback.records.stored_payload import StoredPayload
from feedback.redis.deadlines import Deadlines, TakenRequests
from feedback.redis.store import StatusStore
from feedback.status import DISOWNED, FINAL, State
from feedback.statuses import Refused, Status, StatusWrite
from producer_client.resender.payloads import MissingPayload, PayloadFinder
from producer_client.sending.blocking_sends import BlockingSends
from producer_client.sending.resending import (
    MAX_BACKOFF_FACTOR,
    ResendReason,
    draw_of,
    resend_pause_s,
)
from producer_client.submission import Prepared

log = EventLog("onceward.resender")

GROUP = 128


@dataclass(frozen=True, slots=True)
class WantedResend:
    """One request that is to be sent again.

    Attributes:
        left_s: until its deadline, negative after it; None without one.
    """

    status: Status
    why: ResendReason
    left_s: float | None


@dataclass(frozen=True, slots=True)
class ResendBatch:
    """Requests of one topic whose lease is ours.

    Attributes:
        sure_until_s: monotonic time until which no other resender can take them.
        due_again_s: monotonic time from which they are due by themselves.
    """

    taken: TakenRequests
    wanted: Sequence[WantedResend]
    sure_until_s: float
    due_again_s: float


@dataclass(frozen=True, slots=True)
class ResentRequest:
    """A request that Kafka has again."""

    request_id: str
    attempt: int
    why: ResendReason
    topic: str


@dataclass(slots=True)
class _Settling:
    """The next checks of the requests of one group."""

    looks_s: dict[str, float] = field(default_factory=dict)
    put_off_s: dict[str, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    away: NotAvailable | None = None


class Resends:
    """Sends batches again. Safe to share between threads.

    Args:
        put_off_s: after how long a request that could not be tried is checked again.
        on_resent: called for each, in the thread that sent it.
        on_left: called with the monotonic time from which requests are due again that no time was
            left to try.
    """

    def __init__(
        self,
        *,
        store: StatusStore,
        deadlines: Deadlines,
        payloads: PayloadFinder,
        sending: BlockingSends,
        resend_after_s: float,
        put_off_s: float,
        on_resent: Callable[[ResentRequest], None],
        on_left: Callable[[float], None],
    ) -> None:
        self._store = store
        self._deadlines = deadlines
        self._payloads = payloads
        self._sending = sending
        self._resend_after_s = resend_after_s
        self._put_off_s = put_off_s
        self._on_resent = on_resent
        self._on_left = on_left

    def send(self, batch: ResendBatch) -> NotAvailable | None:
        """Send a batch again; return why its topic is away, None when it is there.

        Raises:
            RedisUnavailable: the rest of the batch was not sent and is due again by itself.
        """
        wanted = {one.status.request_id: one for one in batch.wanted}
        for at in range(0, len(batch.wanted), GROUP):
            statuses = [one.status for one in batch.wanted[at : at + GROUP]]
            for group in self._payloads.groups(statuses):
                if monotonic_s() >= batch.sure_until_s:
                    # Another resender may take them at any moment.
                    self._on_left(batch.due_again_s)
                    return None
                settling = self._send_group([wanted[one.request_id] for one in group])
                self._settle(batch.taken, settling)
                if settling.away is not None:
                    return settling.away
        return None

    def _send_group(self, group: Sequence[WantedResend]) -> _Settling:
        settling = _Settling()
        ready: list[tuple[WantedResend, Prepared]] = []
        for one, payload in zip(
            group, self._payloads.of([one.status for one in group]), strict=True
        ):
            if isinstance(payload, StoredPayload):
                again = self._sending.next_attempt(one.status.request_id, payload, known=one.status)
                ready.append((one, again))
            elif payload is MissingPayload.GONE:
                self._without_payload(one, settling)
            else:
                settling.put_off_s[one.status.request_id] = self._put_off_s
                if isinstance(payload, KafkaUnavailable):
                    settling.away = payload
                else:
                    self._on_left(monotonic_s() + 2 * self._put_off_s)
        if ready:
            told = self._tell_and_send([again for _, again in ready])
            for (one, again), ending in zip(ready, told, strict=True):
                self._note(one, again, ending, settling)
        return settling

    def _tell_and_send(self, ready: Sequence[Prepared]) -> list[OncewardError | Refused | None]:
        try:
            return self._sending.again_many(ready, keep_payloads=False)
        except (NotSent, SendUnknown) as error:
            raise RedisUnavailable(error.reason).because(error.fault) from error

    def _note(
        self,
        one: WantedResend,
        again: Prepared,
        ending: OncewardError | Refused | None,
        settling: _Settling,
    ) -> None:
        request_id = again.request_id
        match ending:
            case None:
                settling.looks_s[request_id] = self._pause_after(one, again)
                self._tell(one, again)
            case SendUnknown():
                # Most likely it was not sent: it is tried again when its topic is, and not after a
                # pause.
                settling.put_off_s[request_id] = self._put_off_s
                settling.away = ending
            case NotSent() if isinstance(ending.__cause__, TopicAway | TopicForbidden):
                settling.put_off_s[request_id] = self._put_off_s
                settling.away = ending
            case Refused() if ending.state in FINAL or ending.nothing_stands:
                settling.ended.append(request_id)
            case Refused():
                settling.looks_s[request_id] = self._resend_after_s
            case _:
                log.warning("request.not_resent", request_id=request_id, reason=str(ending))
                settling.looks_s[request_id] = self._pause_after(one, again)

    def _tell(self, one: WantedResend, again: Prepared) -> None:
        attempt = again.envelope.attempt
        log.info("request.resent", request_id=again.request_id, attempt=attempt, why=one.why)
        self._on_resent(ResentRequest(again.request_id, attempt, one.why, again.payload.topic))

    def _pause_after(self, one: WantedResend, again: Prepared) -> float:
        attempt = again.envelope.attempt
        return resend_pause_s(
            attempt,
            draw_of(again.request_id, attempt),
            resend_after_s=self._resend_after_s,
            past_s=None if one.left_s is None or one.left_s > 0 else -one.left_s,
        )

    def _without_payload(self, one: WantedResend, settling: _Settling) -> None:
        """There is nothing to send: neither Redis nor Kafka has the payload.

        FAILED is written only if nobody has the request: a worker gave it up, or it is long past
        its deadline, when no claim is granted any more. Workers end a claimed request. A living
        worker owns the requests that it has accepted. So does a worker without a heartbeat: it may
        be cut off from Redis alone, and run them.
        """
        # Read once more: a Redis that came back empty has no payloads either, and Kafka may have
        # the record unread.
        status = self._store.read(one.status.request_id)
        longest_s = MAX_BACKOFF_FACTOR * self._resend_after_s
        is_long_past = one.left_s is not None and one.left_s < -longest_s
        if status.state is State.UNKNOWN:
            settling.ended.append(status.request_id)
        elif status.generation == 0 and _has_nobody(status, is_long_past=is_long_past):
            self._store.write([_payload_gone(status)])
            log.warning("request.payload_gone", request_id=status.request_id, topic=status.topic)
        elif status.state is State.LOST:
            # Put off: otherwise the scan for lost requests makes it due each second.
            settling.put_off_s[status.request_id] = longest_s
        else:
            settling.looks_s[status.request_id] = longest_s

    def _settle(self, taken: TakenRequests, settling: _Settling) -> None:
        self._deadlines.settle(taken, settling.looks_s)
        self._deadlines.settle(taken, settling.put_off_s, fixed=True)
        self._deadlines.remove(taken, settling.ended)


def _has_nobody(status: Status, *, is_long_past: bool) -> bool:
    """Whether no worker has a request that was never claimed, or none may claim it any more."""
    if is_long_past:
        # Beside a resend another worker may have accepted it since, and was refused that word.
        is_disowned = (status.worker or "").endswith(DISOWNED)
        return status.state in (State.LOST, State.PENDING) and not is_disowned
    return status.state is State.LOST and not status.worker


def _payload_gone(status: Status) -> StatusWrite:
    return StatusWrite(
        request_id=status.request_id,
        state=State.FAILED,
        attempt=status.attempt,
        generation=0,
        payload_sha256=status.payload_sha256 or "",
        fields={
            "code": "PAYLOAD_GONE",
            "message": "neither Redis nor Kafka has the payload any longer: send it anew",
            "resend": "0",
        },
        # The worker that accepted it since.
        held_by=status.worker or "",
    )
