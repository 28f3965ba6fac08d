"""The way of a send: PENDING told, handed to Kafka, and what became of it said.

PENDING is told before Kafka is asked, so that a status exists for whatever Kafka may have. If the
process dies in between, the request is PENDING with its payload kept, and a resender sends it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from feedback.clock import epoch_ms, monotonic_s
from feedback.envelope import Envelope, encode_headers, payload_sha256
from feedback.errors import (
    InvalidMessage,
    NotSent,
    OncewardError,
    PayloadMismatch,
    RedisUnavailable,
    SendUnknown,
)
from feedback.kept import KeptPayload
from feedback.settings import ClientSection
from feedback.status import FINAL, Refusal, State, may_reopen
from feedback.statuses import Refused, Status, StatusWrite
from feedback.store import StatusStore
from producer_client.kafka_sender import (
    KafkaSender,
    PendingRecord,
    RecordNotSent,
    RecordUnknown,
    TopicAway,
)
from producer_client.submission import Prepared, SendResult, Submission, prepare

BATCH = 128
BATCHES_IN_FLIGHT = 4
# How late a paced sending may be and still make it good by sending faster.
CATCH_UP_S = 0.5


class Sending:
    """Sends requests, one, many, or again. Safe to share between threads.

    Args:
        section: default topic, deadline and times.
        store: where PENDING is told.
        sender: hands records to Kafka.
    """

    def __init__(self, section: ClientSection, store: StatusStore, sender: KafkaSender) -> None:
        self._section = section
        self._store = store
        self._sender = sender

    def one(self, submission: Submission) -> Prepared:
        """Send one request and return it as it was sent; see `Client.send`."""
        one = self._prepare(submission)
        told = self._announce([one])[0]
        if isinstance(told, OncewardError):
            raise told
        if told is None:
            return one
        self._send_now(told)
        return told

    def many(
        self, submissions: Iterable[Submission], *, rate: float | None = None
    ) -> Iterator[SendResult]:
        """Send many requests, yielding what became of each; see `Client.send_many`.

        Redis is told one batch while Kafka takes the one before; what is in flight is bounded.
        """
        flying: deque[_Batch] = deque()
        due_s = monotonic_s()
        batches = _batches(submissions, _batch_size(rate))
        try:
            for batch in batches:
                flying.append(self._launch(batch))
                if len(flying) >= (1 if rate else BATCHES_IN_FLIGHT):
                    yield from self._land(flying.popleft())
                if rate:
                    # From one due time to the next, so that waking up late does not add up.
                    due_s = max(due_s + len(batch) / rate, monotonic_s() - CATCH_UP_S)
                    _pace(due_s)
        except Exception:
            # The source of the submissions failed: what was sent before is told first.
            for one in flying:
                yield from self._land(one)
            raise
        for one in flying:
            yield from self._land(one)

    def again(
        self,
        request_id: str,
        payload: KeptPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
    ) -> None:
        """Send a request again under the same id; see `Client.resend`."""
        deadline_at = known.deadline_at or deadline_at
        if deadline_at is None:
            deadline_at = epoch_ms() + int(self._section.deadline_s * 1000)
        ready = Prepared(
            Envelope(request_id, known.attempt + 1, deadline_at),
            payload,
            payload_sha256(payload.key, payload.value),
            named_by_caller=True,
        )
        refused = self._tell_pending([ready])[0]
        if refused is not None and refused.reason is Refusal.PAYLOAD:
            raise PayloadMismatch(request_id)
        if refused is not None and refused.state in FINAL and not refused.resend:
            return
        self._send_now(ready)

    def _prepare(self, submission: Submission) -> Prepared:
        return prepare(
            submission,
            default_topic=self._section.topic,
            default_deadline_s=self._section.deadline_s,
            now_ms=epoch_ms(),
        )

    def _tell_pending(self, batch: Sequence[Prepared]) -> list[Refused | None]:
        look_at = epoch_ms() + int(self._section.resend_after_s * 1000)
        try:
            return self._store.write([_pending(one) for one in batch], look_at=look_at)
        except RedisUnavailable as error:
            known_absent = error.never_reached
            kind = NotSent if known_absent else SendUnknown
            raise kind(batch[0].request_id, str(error)) from error

    def _announce(self, batch: Sequence[Prepared]) -> list[Prepared | OncewardError | None]:
        """PENDING for each; None for one that has already ended, an error for a taken id."""
        ready = self._as_resends(batch)
        told: list[Prepared | OncewardError | None] = list(ready)
        for at, refused in enumerate(self._tell_pending(ready)):
            if refused is not None:
                told[at] = _after_refusal(ready[at], refused)
        return told

    def _as_resends(self, batch: Sequence[Prepared]) -> list[Prepared]:
        named = [one.request_id for one in batch if one.named_by_caller]
        if not named:
            return list(batch)
        try:
            known = {one.request_id: one for one in self._store.read_many(named)}
        except RedisUnavailable as error:
            raise NotSent(named[0], str(error)) from error
        return [_as_resend(one, known.get(one.request_id)) for one in batch]

    def _send_now(self, one: Prepared) -> None:
        error = self._outcome(*self._hand_over([one])[0])
        if error is not None:
            raise error

    def _hand_over(
        self, batch: Sequence[Prepared]
    ) -> list[tuple[Prepared, PendingRecord | RecordNotSent]]:
        handed: list[tuple[Prepared, PendingRecord | RecordNotSent]] = []
        # One of a batch waits for a topic that is away; the others need not wait as long again.
        away: dict[str, TopicAway] = {}
        for one in batch:
            topic = one.payload.topic
            handed.append((one, away.get(topic) or self._hand_over_one(one)))
            if isinstance(record := handed[-1][1], TopicAway):
                away[topic] = record
        return handed

    def _hand_over_one(self, one: Prepared) -> PendingRecord | RecordNotSent:
        payload = one.payload
        try:
            return self._sender.send(
                payload.topic,
                key=payload.key,
                value=payload.value,
                headers=encode_headers(one.envelope, payload.headers),
            )
        except RecordNotSent as error:
            return error

    def _outcome(
        self, one: Prepared, record: PendingRecord | RecordNotSent
    ) -> NotSent | SendUnknown | None:
        try:
            if isinstance(record, RecordNotSent):
                raise record
            record.result()
        except RecordUnknown as error:
            return SendUnknown(one.request_id, str(error))
        except RecordNotSent as error:
            return self._not_sent(one, str(error))
        return None

    def _not_sent(self, one: Prepared, reason: str) -> NotSent | SendUnknown:
        if one.envelope.attempt > 1:
            # An earlier attempt may be under way: its trace is not ours to remove.
            return NotSent(one.request_id, reason)
        try:
            self._store.forget(one.request_id)
        except RedisUnavailable as error:
            # The payload is still kept, so a resender may yet send it.
            return SendUnknown(one.request_id, f"{reason}; and then {error}")
        return NotSent(one.request_id, reason)

    def _launch(self, submissions: Sequence[Submission]) -> _Batch:
        results: list[SendResult | None] = []
        batch: list[Prepared] = []
        for submission in submissions:
            try:
                batch.append(self._prepare(submission))
                results.append(None)
            except InvalidMessage as error:
                results.append(SendResult(submission.request_id or "", error))
        try:
            announced = self._announce(batch) if batch else []
        except (NotSent, SendUnknown) as error:
            announced = [type(error)(one.request_id, error.reason) for one in batch]
        places = [at for at, result in enumerate(results) if result is None]
        to_send: list[Prepared] = []
        send_places: list[int] = []
        for at, one, told in zip(places, batch, announced, strict=True):
            if isinstance(told, Prepared):
                to_send.append(told)
                send_places.append(at)
            else:
                results[at] = SendResult(one.request_id, told)
        return _Batch(results, send_places, self._hand_over(to_send))

    def _land(self, batch: _Batch) -> Iterator[SendResult]:
        for at, (one, record) in zip(batch.places, batch.handed, strict=True):
            batch.results[at] = SendResult(one.request_id, self._outcome(one, record))
        for result in batch.results:
            assert result is not None
            yield result


@dataclass(slots=True)
class _Batch:
    results: list[SendResult | None]
    places: list[int]
    handed: list[tuple[Prepared, PendingRecord | RecordNotSent]]


def _pending(one: Prepared) -> StatusWrite:
    return StatusWrite(
        request_id=one.request_id,
        state=State.PENDING,
        attempt=one.envelope.attempt,
        generation=0,
        payload_sha256=one.payload_sha256,
        fields={"deadline_at": str(one.envelope.deadline_at), "topic": one.payload.topic},
        payload=one.payload,
    )


def _as_resend(one: Prepared, known: Status | None) -> Prepared:
    if known is None or known.state is State.UNKNOWN:
        return one
    if known.payload_sha256 != one.payload_sha256:
        return one
    deadline_at = known.deadline_at or one.envelope.deadline_at
    envelope = Envelope(one.request_id, known.attempt + 1, deadline_at)
    return Prepared(envelope, one.payload, one.payload_sha256, named_by_caller=True)


def _after_refusal(one: Prepared, refused: Refused) -> OncewardError | Prepared | None:
    if refused.reason is Refusal.PAYLOAD:
        return PayloadMismatch(one.request_id)
    if may_reopen(refused.state, resend=refused.resend):
        # It runs or is about to: the resend goes out, and the journal answers it.
        return one
    return None


def _batches(submissions: Iterable[Submission], size: int) -> Iterator[list[Submission]]:
    batch: list[Submission] = []
    try:
        for submission in submissions:
            batch.append(submission)
            if len(batch) == size:
                yield batch
                batch = []
    except Exception:
        # What was read before the source failed is sent all the same.
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _pace(until_s: float) -> None:
    left_s = until_s - monotonic_s()
    if left_s > 0:
        time.sleep(left_s)


def _batch_size(rate: float | None) -> int:
    return BATCH if rate is None else max(1, min(BATCH, int(rate / 50)))
