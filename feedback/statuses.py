"""Statuses: the write, the script's answer, the status that a client reads, the stored form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from feedback.errors import NewerStatus, RedisRefused
from feedback.records.envelope import FirstPlace
from feedback.records.stored_payload import StoredPayload
from feedback.status import RefusalReason, State, StoredFacts, WriteFacts, derive, judge

# In an answer of the status script: begins the packed status that a PENDING replaced.
REPLACED = "="
_REPLACED = REPLACED.encode()
# Its answer for a key of another type.
WRONG_TYPE = "WRONGTYPE"
# The fields that a caller sees, beside its id and its state.
SHOWN = (
    "attempt",
    "code",
    "message",
    "result",
    "resend",
    "by",
    "due_at",
    "updated_at",
    "deadline_at",
    "topic",
)
# Databases hold signed numbers of 64 bits.
_NUMBERS = 2**63


class Origin(NamedTuple):
    """The coordinates of a request's record, and its deadline (epoch ms).

    A named tuple, since every outcome makes one, and few are written.
    """

    topic: str
    partition: int
    offset: int
    deadline_at: int

    @property
    def fields(self) -> dict[str, str]:
        """The same as fields of the hash."""
        return {name: str(value) for name, value in zip(self._fields, self, strict=True)}


class StatusWrite(NamedTuple):
    """One status to write, with the facts that the rule looks at.

    Attributes:
        generation: 0 before a claim.
        fields: the fields of the hash that this write sets, as text (docs: Redis keys).
        payload: stored for a resend; a state that cannot be reopened deletes it.
        restore: the journal's row replaces another payload's status.
        held_by: taken only while the hash names this worker.
        origin: written only where the hash has no coordinates. ACCEPTED writes them, unless Redis
            was away then; and Redis may have lost them since.
        reopens, follows: before a claim: see `WriteFacts`.
    """

    request_id: str
    state: State
    attempt: int
    generation: int
    payload_sha256: str
    fields: Mapping[str, str] = MappingProxyType({})
    payload: StoredPayload | None = None
    restore: bool = False
    held_by: str | None = None
    origin: Origin | None = None
    reopens: int | None = None
    follows: int | None = None

    @property
    def size_bytes(self) -> int:
        """The length of result, message and payload, approximately."""
        texts = len(self.fields.get("result", "")) + len(self.fields.get("message", ""))
        return texts + (0 if self.payload is None else self.payload.size_bytes)

    @property
    def topic(self) -> str:
        """The request's topic; empty when not known."""
        return self.fields.get("topic", "") if self.origin is None else self.origin.topic

    @property
    def placed(self) -> StatusWrite:
        """The same write with its origin among its fields."""
        if self.origin is None:
            return self
        return self._replace(fields={**self.origin.fields, **self.fields}, origin=None)


def newer_of(stands: StatusWrite, comes: StatusWrite) -> StatusWrite:
    """Return the one of two waiting writes of a request to keep: the same rule as in Redis.

    Args:
        stands: the write that waits already.
        comes: the new write.
    """
    fields = stands.fields
    resend, worker = fields.get("resend") == "1", fields.get("worker", "")
    # Only Redis knows the holder. When both writes require the same holder, the first has not
    # reached Redis, so it must not decide the second's condition.
    held_by = None if comes.held_by == stands.held_by else comes.held_by
    stored = StoredFacts(
        stands.state,
        stands.attempt,
        stands.generation,
        stands.payload_sha256,
        resend=resend,
        worker=worker,
        topic=stands.topic,
    )
    write = WriteFacts(
        comes.state,
        comes.attempt,
        comes.generation,
        comes.payload_sha256,
        restore=comes.restore,
        held_by=held_by,
        reopens=comes.reopens,
        topic=comes.topic,
    )
    return comes if judge(stored, write) is None else stands


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that the rule refused, with the stored status.

    Attributes:
        state: UNKNOWN without a stored status, or for a state that only a newer version knows.
    """

    reason: RefusalReason
    state: State
    attempt: int
    generation: int
    resend: bool

    @property
    def nothing_stands(self) -> bool:
        """Whether the request was taken back, and left no trace."""
        return self.reason is RefusalReason.TAKEN_BACK and self.state is State.UNKNOWN


@dataclass(frozen=True, slots=True)
class Status:
    """A request's status as a client reads it. Times are epoch milliseconds.

    Attributes:
        result: the handler's return value, decoded from JSON.
        resend: for FAILED: whether a resend may help.
        by: for SKIPPED: the request that succeeded in this one's stead.
        updated_at: epoch ms of Redis' clock.
        told_in: for PENDING: the `run_id` of the Redis server that it was written to.
        first: the place of the first record, where partition and offset do not say all of it: they
            are those of a resend, or the record names no deadline.
        effect_kind, in_doubt: of a run: its handler's declaration at the time of the claim.
        claimed_at: of a run: epoch ms of its claim, by the journal's clock.
        voids: of any run but the first: the number of earlier runs that were declared void.
    """

    request_id: str
    state: State
    attempt: int = 0
    generation: int = 0
    code: str | None = None
    message: str | None = None
    result: Any = None
    worker: str | None = None
    resend: bool = False
    by: str | None = None
    due_at: int | None = None
    updated_at: int | None = None
    deadline_at: int | None = None
    payload_sha256: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    told_in: str | None = None
    first: FirstPlace | None = None
    effect_kind: str | None = None
    in_doubt: str | None = None
    claimed_at: int | None = None
    voids: int | None = None

    @property
    def first_place(self) -> FirstPlace | None:
        """Where the first record of the request lies, which a resend repeats.

        None where no worker has read it, as far as Redis knows. Where the status does not say so,
        it is the record that was read last.
        """
        if self.topic is None or self.partition is None or self.offset is None:
            return self.first
        return self.first or FirstPlace(self.topic, self.partition, self.offset)

    def as_dict(self) -> dict[str, Any]:
        """Return the status for a caller, ready for JSON: without workers, offsets and hashes.

        A field that is not known is left out.

        >>> Status("order-7", State.SUCCEEDED, attempt=1, result={"receipt": 7}).as_dict()
        {'request_id': 'order-7', 'state': 'SUCCEEDED', 'final': True, 'attempt': 1, \
'result': {'receipt': 7}, 'resend': False}
        """
        shown = {name: getattr(self, name) for name in SHOWN}
        known = {name: value for name, value in shown.items() if value is not None}
        head = {"request_id": self.request_id, "state": str(self.state)}
        return {**head, "final": self.state.is_final, **known}


@dataclass(frozen=True, slots=True)
class Replaced:
    """The earlier attempt's status that a PENDING replaced, as the script packed it.

    Empty where another sending had written the same PENDING.
    """

    packed: bytes = field(repr=False)  # of a result, among others


WriteAnswer = Refused | Replaced | RedisRefused | None


def decode_answer(reply: bytes | int) -> WriteAnswer:
    """Return the script's answer to one write.

    None: the write was taken, and it replaced no status that a failed sending would restore.
    RedisRefused: its key holds another type of value, and this write alone did nothing.
    """
    if not reply or isinstance(reply, int):
        return None
    if reply.startswith(_REPLACED):
        return Replaced(reply.removeprefix(_REPLACED))
    if reply.startswith(WRONG_TYPE.encode()):
        return RedisRefused(f"Redis: {WRONG_TYPE} its key there holds another type of value")
    reason, word, attempt, generation, resend = reply.decode("utf-8", "replace").split("|")
    return Refused(
        RefusalReason(reason), _known(word), _count(attempt), _count(generation), resend == "1"
    )


def refusals_of(answers: Sequence[WriteAnswer]) -> list[Refused | None]:
    """Return each answer's refusal, None for a write that was taken.

    Raises:
        RedisRefused: the key of one of the writes holds another type of value.
    """
    for one in answers:
        if isinstance(one, RedisRefused):
            raise one
    return [one if isinstance(one, Refused) else None for one in answers]


def decode_hash(found: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return a hash as text; bytes that are not UTF-8 are replaced."""
    return {name.decode(): value.decode("utf-8", "replace") for name, value in found.items()}


def status_of(request_id: str, found: Mapping[str, str], alive: set[str]) -> Status:
    """Return the status that a client reads from a stored hash.

    Args:
        request_id: the request.
        found: the hash; empty when there is none.
        alive: the workers that have a heartbeat.

    Raises:
        NewerStatus: its state is of a newer version.
        ValueError: a number or the result in it is malformed.
    """
    if "status" not in found:
        return Status(request_id, State.UNKNOWN)
    worker = found.get("worker", "")
    result = found.get("result")
    return Status(
        request_id=request_id,
        state=derive(
            _state(found["status"], request_id), worker=worker, worker_alive=worker in alive
        ),
        attempt=_number(found.get("attempt")) or 0,
        generation=_generation(found.get("generation")),
        code=found.get("code") or None,
        message=found.get("message") or None,
        result=_result(result),
        worker=worker or None,
        resend=found.get("resend") == "1",
        by=found.get("by") or None,
        due_at=_number(found.get("due_at")),
        updated_at=_number(found.get("updated_at")),
        deadline_at=_number(found.get("deadline_at")),
        payload_sha256=found.get("payload_sha256"),
        topic=found.get("topic"),
        partition=_number(found.get("partition")),
        offset=_number(found.get("offset")),
        told_in=found.get("told_in") or None,
        first=FirstPlace.read(found.get("first", "")),
        effect_kind=found.get("effect_kind") or None,
        in_doubt=found.get("in_doubt") or None,
        claimed_at=_number(found.get("claimed_at")),
        voids=_number(found.get("voids")),
    )


def _result(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except RecursionError:
        raise ValueError("a status has a result that is nested too deep") from None


def _known(word: str) -> State:
    """Return the state; UNKNOWN for one of a newer version, so that the rest of a batch is read."""
    try:
        return State(word)
    except ValueError:
        return State.UNKNOWN


def _state(word: str, request_id: str) -> State:
    try:
        return State(word)
    except ValueError:
        fault = f"request {request_id} has the state {word!r}, which is of a newer version"
        raise NewerStatus(f"{fault}: update this process") from None


def _count(text: str) -> int:
    """Return a number of the script's answer; 0 for a malformed one, as the script reads it."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _generation(text: str | None) -> int:
    number = _number(text) or 0
    if number + 1 == _NUMBERS:
        raise ValueError("a status has a generation that none can follow")
    return number


def _number(text: str | None) -> int | None:
    number = int(text) if text else None
    if number is not None and not -_NUMBERS <= number < _NUMBERS:
        raise ValueError("a status has a number that no database holds")
    return number
