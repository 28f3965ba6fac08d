"""The steps of a send: write PENDING, hand over to Kafka, return the result.

PENDING is written before the record goes to Kafka, so that every record that Kafka may have has a
status. If the process dies in between, the request is PENDING with its payload stored, and a
resender sends it.

It is written once, as coroutines, for threads (`sync_bridge`) and for asyncio. Where calls suspend,
a task may be cancelled at each `await`. Before its record was handed over, it takes its PENDING
back; after that it is a send of unknown outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import (
    InvalidValue,
    NewerStatus,
    NotSent,
    OncewardError,
    RedisRefused,
    RedisUnavailable,
    SendUnknown,
)
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown, TopicAway
from feedback.records.envelope import encode_headers, payload_sha256
from feedback.records.schemas import SchemaFile, value_fault
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import ClientSection
from feedback.status import State
from feedback.statuses import Refused, Status, WriteAnswer
from producer_client.sending.send_rules import (
    after_refusal,
    as_resend,
    beside,
    certain,
    error_of,
    first_look_s,
    is_answered,
    is_behind_pending,
    is_over_earlier,
    made_unknown,
    next_envelope,
    pending_write,
    told_request,
    why_not_again,
)
from producer_client.sending.sent_before import SentBefore
from producer_client.sending.sync_bridge import OnItsWay, Sender, Statuses
from producer_client.submission import Prepared, Submission, prepare

Handed = tuple[Prepared, OnItsWay | RecordNotSent]
Told = TypeVar("Told", bound=NotSent | SendUnknown | None)


class SendFlow:
    """Sends requests, once or again.

    Args:
        section: default topic, deadline and times.
        statuses: where PENDING is written.
        sender: hands records to Kafka.
        model: a pydantic model that every value must match.
        schema: the schema that every value must match.
        on_taken_back: called with a cancelled sending that was certainly not sent, after its
            PENDING was written.
        sent: the earlier sends of this process; None: none.
    """

    def __init__(
        self,
        section: ClientSection,
        statuses: Statuses,
        sender: Sender,
        *,
        model: type | None = None,
        schema: SchemaFile | None = None,
        on_taken_back: Callable[[Prepared], None] = lambda one: None,
        sent: SentBefore | None = None,
    ) -> None:
        self._sent = SentBefore() if sent is None else sent
        # The sendings whose PENDING was taken back, or is just now, by their identity.
        self._withdrawn: set[int] = set()
        self._model = model
        self._schema = schema
        self._section = section
        self._statuses = statuses
        self._sender = sender
        self._on_taken_back = on_taken_back

    async def one(self, submission: Submission) -> Prepared:
        """Send one request and return it as it was sent; see `Client.send`."""
        one = self.prepare(submission)
        until_s = self._until_s()
        record: OnItsWay | RecordNotSent | None = None
        try:
            told = (await self.announce_each([one]))[0]
            if isinstance(told, OncewardError):
                raise told
            if told is None:
                return one
            one = told
            ((_, record),) = self.hand_over([one], until_s=until_s)
            error = await self.outcome(one, record)
        except asyncio.CancelledError:
            self._take_back(one, record)
            raise
        finally:
            self.settled(one)
        if error is not None:
            raise error
        return one

    def settled(self, one: Prepared) -> None:
        """Forget that the PENDING of a sending was taken back: nobody takes it back any more."""
        self._withdrawn.discard(id(one))

    def _take_back(self, one: Prepared, record: OnItsWay | RecordNotSent | None) -> None:
        """Keep a cancelled sending from going out, if that is still possible."""
        if record is None:
            return  # the store tells of a PENDING that it writes all the same
        if id(one) in self._withdrawn:
            # Redis may have taken it back by now: the next of its kind would be another sending's.
            self._sent.note(one.request_id)
        elif isinstance(record, RecordNotSent) or record.take_back():
            is_first = one.is_told and one.envelope.attempt == 1
            if is_first or is_over_earlier(one):
                self._on_taken_back(one)
        else:
            self._sent.note(one.request_id)

    async def again(
        self,
        request_id: str,
        payload: StoredPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
        keeps_payload: bool = True,
    ) -> None:
        """Send a request again under the same id; see `Client.resend`.

        Args:
            keeps_payload: whether to store the payload in Redis (again). If it was read from there,
                it is still there, or its request was taken back and nothing is sent.
        """
        again = self.next_attempt(request_id, payload, known=known, deadline_at=deadline_at)
        self._sent.note(request_id)
        until_s = self._until_s()
        told: object
        try:
            (told,) = await self.again_many([again], keep_payloads=keeps_payload, until_s=until_s)
        except NotSent as error:
            told = error
        if isinstance(told, NotSent):
            raise certain(again, told) or told
        if isinstance(told, OncewardError):
            raise told

    def _until_s(self) -> float:
        """Return the monotonic time by which a send that begins now has to be over."""
        return monotonic_s() + self._section.send_timeout_s

    async def again_many(
        self,
        batch: Sequence[Prepared],
        *,
        keep_payloads: bool,
        until_s: float | None = None,
    ) -> list[OncewardError | Refused | None]:
        """Send requests again and return one result for each.

        A result is None when Kafka has the request, the status in Redis when that forbids the
        sending, or the error. No trace of an earlier attempt is ever removed. If Kafka certainly
        does not have the record, the earlier status is restored, unless somebody has written
        another one since.

        Args:
            keep_payloads: whether to store the payloads in Redis (again).
            until_s: see `hand_over`.

        Raises:
            NotSent, SendUnknown: Redis is away; nothing was sent.
        """
        told: list[OncewardError | Refused | None] = []
        ready: list[Prepared] = []
        answers = await self._tell_pending(batch, keep_payloads=keep_payloads)
        for one, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Refused):
                told.append(why_not_again(one, answer))
                ready.append(one)
            elif isinstance(answer, RedisRefused):
                told.append(NotSent(one.request_id, str(answer)))
                ready.append(one)
            else:
                told.append(None)
                ready.append(told_request(one, answer))
        places = [at for at, reason in enumerate(told) if reason is None]
        handed = self.hand_over([ready[at] for at in places], until_s=until_s)
        try:
            endings = [await ending_of(one, record) for one, record in handed]
        except asyncio.CancelledError:
            for one, record in handed:
                if is_over_earlier(one):
                    self._take_back(one, record)
            raise
        await self._put_back(
            [
                one
                for (one, _), ending in zip(handed, endings, strict=True)
                if isinstance(ending, NotSent)
            ]
        )
        for at, ending in zip(places, endings, strict=True):
            told[at] = ending
        return told

    async def _put_back(self, failed: Sequence[Prepared]) -> None:
        """Restore the statuses before these resends.

        If Redis is away just then, they stay PENDING, and are sent again as any other.
        """
        with contextlib.suppress(RedisUnavailable):
            for one in failed:
                if is_over_earlier(one):
                    await self.forget(one)

    def next_attempt(
        self,
        request_id: str,
        payload: StoredPayload,
        *,
        known: Status,
        deadline_at: int | None = None,
    ) -> Prepared:
        """Return a request as it is sent again: attempt + 1, the same deadline.

        Args:
            deadline_at: epoch ms, for a request whose status has no deadline.
        """
        deadline_at = known.deadline_at or deadline_at
        if deadline_at is None:
            deadline_at = epoch_ms() + int(self._section.deadline_s * 1000)
        return Prepared(
            next_envelope(request_id, known, deadline_at),
            payload,
            payload_sha256(payload.key, payload.value),
            named_by_caller=True,
        )

    def prepare(self, submission: Submission) -> Prepared:
        """Return a submission checked, encoded and named.

        Raises:
            InvalidMessage: it cannot be sent.
            InvalidValue: its value does not match the model or the schema.
        """
        prepared = prepare(
            submission,
            default_topic=self._section.topic,
            default_deadline_s=self._section.deadline_s,
            now_ms=epoch_ms(),
        )
        # An instance of the model was validated when it was made; that of a subclass was not by it.
        is_valid = self._model is not None and type(submission.value) is self._model
        if not is_valid and (self._model is not None or self._schema is not None):
            fault = value_fault(prepared.payload.value, model=self._model, schema=self._schema)
            if fault is not None:
                raise InvalidValue(fault)
        return prepared

    def row_follows(self, one: Prepared) -> None:
        """Remember that a row of the outbox is written, by which a relay may send the request."""
        self._sent.note(one.request_id)

    async def announce_each(
        self, batch: Sequence[Prepared]
    ) -> list[Prepared | OncewardError | None]:
        """Write PENDING as `announce` does; Redis away is the error of each that it missed."""
        try:
            return await self.announce(batch)
        except (NotSent, SendUnknown) as error:
            return [self._noted(one, self._certain(one, error_of(error, one))) for one in batch]

    async def announce(self, batch: Sequence[Prepared]) -> list[Prepared | OncewardError | None]:
        """Write PENDING for each; None for one that has already ended, an error for a taken id.

        Raises:
            NotSent, SendUnknown: Redis is away; nothing was sent.
        """
        told: list[Prepared | OncewardError | None] = [*await self._as_resends(batch)]
        ready = [(at, one) for at, one in enumerate(told) if isinstance(one, Prepared)]
        answers = await self._tell_pending([one for _, one in ready], keep_payloads=True)
        for (at, one), answer in zip(ready, answers, strict=True):
            told[at] = await self._after(one, answer)
        return told

    async def _after(self, one: Prepared, answer: WriteAnswer) -> Prepared | OncewardError | None:
        """Return the request to send after Redis's answer to its PENDING.

        If a later attempt stands there, PENDING is written once more. The writer of that attempt
        may take it back, and the status that stands then as well, down to nothing, unless this
        sending is written beside it. Each repetition means that somebody else has made progress.
        """
        while isinstance(answer, Refused):
            if not is_behind_pending(answer):
                return after_refusal(one, answer)
            one = beside(one, answer)
            try:
                (answer,) = await self._tell_pending([one], keep_payloads=True)
            except (NotSent, SendUnknown) as error:
                return self._noted(one, self._certain(one, error))
        if isinstance(answer, RedisRefused):
            return self._noted(one, self._certain(one, NotSent(one.request_id, str(answer))))
        return told_request(one, answer)

    async def _tell_pending(
        self, batch: Sequence[Prepared], *, keep_payloads: bool
    ) -> list[WriteAnswer]:
        look_at = epoch_ms() + int(first_look_s(self._section) * 1000)
        writes = [pending_write(one, one.payload if keep_payloads else None) for one in batch]
        try:
            return await self._statuses.replace(writes, look_at=look_at)
        except RedisUnavailable as error:
            known_absent = error.never_reached
            kind = NotSent if known_absent else SendUnknown
            told = kind(batch[0].request_id, str(error))
            raise told.because(error.fault) from error

    async def _as_resends(self, batch: Sequence[Prepared]) -> list[Prepared | SendUnknown | None]:
        """Return each as the next attempt of what Redis knows; an error for an unreadable status.

        None: it is not to be sent again.

        Raises:
            NotSent: Redis is away.
        """
        named = [one.request_id for one in batch if one.named_by_caller]
        if not named:
            return list(batch)
        try:
            known = await self._read_apart(named)
        except RedisUnavailable as error:
            raise NotSent(named[0], str(error)).because(error.fault) from error
        ready: list[Prepared | SendUnknown | None] = []
        for one in batch:
            status = known.get(one.request_id)
            if isinstance(status, Exception):
                said = f"{status}; and it may have been sent before"
                ready.append(self._noted(one, SendUnknown(one.request_id, said)))
                continue
            if status is not None and status.state is not State.UNKNOWN:
                self._sent.note(status.request_id)
            is_over = status is not None and is_answered(one, status)
            ready.append(None if is_over else as_resend(one, status))
        return ready

    async def _read_apart(
        self, request_ids: Sequence[str]
    ) -> dict[str, Status | RedisUnavailable | ValueError]:
        """Return the statuses by their ids, and the error of each that cannot be read.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        try:
            return {one.request_id: one for one in await self._statuses.read_many(request_ids)}
        except (RedisRefused, NewerStatus, ValueError) as error:
            if len(request_ids) == 1:
                return {request_ids[0]: error}
        middle = len(request_ids) // 2
        found = await self._read_apart(request_ids[:middle])
        return found | await self._read_apart(request_ids[middle:])

    def hand_over(self, batch: Sequence[Prepared], *, until_s: float | None = None) -> list[Handed]:
        """Give requests to Kafka and return at once, or when one has waited for its topic.

        Args:
            until_s: monotonic time by which each must have ended. None: each has a send's time
                after its handing over, since those of a batch wait for one another.
        """
        handed: list[Handed] = []
        # One request of a batch waits for a topic that is away; the others need not wait as long
        # again.
        away: dict[str, TopicAway] = {}
        for one in batch:
            topic = one.payload.topic
            handed.append((one, away.get(topic) or self._hand_over_one(one, until_s)))
            if isinstance(record := handed[-1][1], TopicAway):
                away[topic] = record
        return handed

    def _hand_over_one(self, one: Prepared, until_s: float | None) -> OnItsWay | RecordNotSent:
        payload = one.payload
        try:
            return self._sender.send(
                payload.topic,
                key=payload.key,
                value=payload.value,
                headers=encode_headers(one.envelope, payload.headers, group=self._statuses.group),
                deadline_s=until_s,
            )
        except RecordNotSent as error:
            return error

    async def outcome(
        self, one: Prepared, record: OnItsWay | RecordNotSent
    ) -> NotSent | SendUnknown | None:
        """Return the result of a sending.

        A sending that certainly failed leaves no trace; if it was not the first of its request, the
        earlier status is restored.
        """
        return await self.word(one, await self.withdraw(one, await ending_of(one, record)))

    async def word(
        self, one: Prepared, error: NotSent | SendUnknown | None
    ) -> NotSent | SendUnknown | None:
        """Return the caller's error, and remember the ids that may have been sent.

        NotSent for an id that Redis did not know is returned only if nothing suggests that Redis
        has forgotten it; see `sent_before`.
        """
        told = self._certain(one, error)
        if isinstance(told, NotSent) and one.named_by_caller:
            doubt = await self.doubt(one.request_id, deadline_at=one.envelope.deadline_at)
            if doubt is not None:
                said = f"{told.reason}; and it may have been sent before: {doubt}"
                return self._noted(one, made_unknown(told, said))
        return self._noted(one, told)

    def _certain(
        self, one: Prepared, error: NotSent | SendUnknown | None
    ) -> NotSent | SendUnknown | None:
        return certain(one, error)

    async def doubt(self, request_id: str, *, deadline_at: int | None = None) -> str | None:
        """Return why the id may have been sent before though Redis did not know it.

        Args:
            deadline_at: of its sending, where that may be later than any of the settings.
        """
        if self._sent.knows(request_id):
            return "this process did, and Redis has forgotten it"
        left_s = ((deadline_at or 0) - epoch_ms()) / 1000
        longest_s = max(self._section.deadline_s, left_s + self._section.send_timeout_s)
        try:
            memory = await self._statuses.memory(self._sent.last)
        except RedisUnavailable as away:
            return str(away)
        return self._sent.doubt(memory, longest_s=longest_s)

    def _noted(self, one: Prepared, told: Told) -> Told:
        if not isinstance(told, NotSent):
            self._sent.note(one.request_id, is_in_redis=told is None and one.is_told)
        return told

    async def withdraw(
        self, one: Prepared, error: NotSent | SendUnknown | None
    ) -> NotSent | SendUnknown | None:
        """Take back the PENDING of a sending that certainly failed, and return the result.

        The result is unknown where a resender or another sending has taken it up meanwhile.
        """
        if not isinstance(error, NotSent) or not one.is_told:
            return error
        self._withdrawn.add(id(one))
        if one.envelope.attempt > 1:
            await self._put_back([one])
            return error
        try:
            is_gone = await self.forget(one)
        except RedisUnavailable as away:
            # The payload is still stored, so a resender may yet send it.
            return made_unknown(error, f"{error.reason}; and then {away}")
        if not is_gone:
            return made_unknown(
                error, f"{error.reason}; but a resender or another sending has it now"
            )
        return error

    async def forget(self, one: Prepared) -> bool:
        """Take back the PENDING of a sending that certainly did not happen.

        Say whether no trace of it is left, or the earlier status is restored; see
        `StatusStore.forget`.

        Raises:
            RedisUnavailable: it may still be there.
        """
        return await self._statuses.forget(
            one.request_id,
            attempt=one.envelope.attempt,
            payload_sha256=one.payload_sha256,
            deadline_at=one.envelope.deadline_at,
            replaced=one.replaced,
        )


async def ending_of(
    one: Prepared, record: OnItsWay | RecordNotSent
) -> NotSent | SendUnknown | None:
    """Return the result of a record.

    The error's cause tells a topic that is away from a record that was refused.
    """
    ending: NotSent | SendUnknown
    try:
        if isinstance(record, RecordNotSent):
            raise record
        await record.ending()
        return None
    except RecordUnknown as error:
        ending = SendUnknown(one.request_id, str(error)).because(error.fault)
        ending.__cause__ = error
    except RecordNotSent as error:
        ending = NotSent(one.request_id, str(error)).because(error.fault)
        ending.__cause__ = error
    return ending
