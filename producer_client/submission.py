"""A request to send, and the result of its sending."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from feedback.errors import InvalidMessage, OncewardError, SendUnknown
from feedback.foreign import class_name, name_of
from feedback.records.envelope import (
    MAX_EPOCH_MS,
    RESERVED,
    Envelope,
    check_request_id,
    new_request_id,
    payload_sha256,
)
from feedback.records.stored_payload import StoredPayload
from feedback.statuses import Replaced

# A broker's limits; to ask the broker, a bad name would cost a round trip and a trace in Redis.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")

# A mapping, so that a TypedDict fits; JSON takes a dict.
Value = bytes | str | Mapping[str, Any] | list[Any] | BaseModel | None


@dataclass(frozen=True, slots=True)
class Submission:
    """One request to be sent.

    Attributes:
        value: bytes as they are, text as UTF-8, a dict, list or pydantic model as compact JSON,
            None as a tombstone.
        key: bytes, text, or None; requests with the same key share a partition.
        topic: None for the client's default.
        request_id: 1 to 128 printable ASCII characters, best the name of the action; None for a new
            UUIDv7, which is enough where nobody ever asks again.
        deadline_s: seconds from now in which its run must start; None for the default.
        line: the line that it was read from, for messages.
        reopen: see `Client.send`.
    """

    # Not shown: logging a submission logs no payload.
    value: Value = field(repr=False)
    key: bytes | str | None = field(default=None, repr=False)
    topic: str | None = None
    request_id: str | None = None
    headers: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    deadline_s: float | None = None
    line: int | None = field(default=None, compare=False)
    reopen: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission made ready: checked, encoded and named.

    Attributes:
        is_new: nobody can have sent it before: its id was made for it, or Redis knew nothing of it
            when this sending began.
        is_told: Redis may have the PENDING of this very sending.
        replaced: the status that it replaced; None: nothing.
        reopen: whether it is sent again where Kafka has had it.
    """

    envelope: Envelope
    payload: StoredPayload
    payload_sha256: str
    named_by_caller: bool
    is_new: bool = False
    is_told: bool = False
    replaced: Replaced | None = None
    reopen: bool = True

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.envelope.request_id


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one sending of `send_many`.

    Attributes:
        error: None when Kafka has it (or the request was already final); else NotSent,
            SendUnknown, PayloadMismatch or InvalidMessage.
    """

    request_id: str
    error: OncewardError | None = None

    @property
    def sent(self) -> bool:
        """Whether Kafka acknowledged the request."""
        return self.error is None

    @property
    def unknown(self) -> bool:
        """Whether it may or may not have reached Kafka."""
        return isinstance(self.error, SendUnknown)


def prepare(
    submission: Submission, *, default_topic: str | None, default_deadline_s: float, now_ms: int
) -> Prepared:
    """Return the submission checked, encoded and named.

    Args:
        now_ms: UTC now in epoch milliseconds.

    Raises:
        InvalidMessage: the id, the topic, key, value, headers or the deadline cannot be sent.
    """
    _require_types(submission)
    topic = submission.topic or default_topic
    if not topic:
        raise InvalidMessage("no topic: give one, or set [client] topic")
    if not _TOPIC.match(topic):
        raise InvalidMessage("the topic: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-' are allowed")
    deadline_s = default_deadline_s if submission.deadline_s is None else submission.deadline_s
    if not 0 < deadline_s <= (MAX_EPOCH_MS - now_ms) / 1000:
        raise InvalidMessage(
            f"deadline of {deadline_s} s: it must lie in the future, and before the year 10000"
        )
    key = submission.key
    if isinstance(key, str):
        key = _utf8(key, "key")
    value = encode_value(submission.value)
    if key is None and value is None:
        raise InvalidMessage("neither key nor value: Kafka clients take at least one")
    named = submission.request_id is not None
    request_id = check_request_id(submission.request_id) if named else new_request_id()  # type: ignore[arg-type]
    return Prepared(
        envelope=Envelope(request_id, 1, now_ms + int(deadline_s * 1000)),
        payload=StoredPayload(topic, key, value, _checked(submission.headers)),
        payload_sha256=payload_sha256(key, value),
        named_by_caller=named,
        is_new=not named,
        reopen=submission.reopen,
    )


def encode_value(value: Value) -> bytes | None:
    """Return the bytes of a value.

    Raises:
        InvalidMessage: JSON cannot hold it.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value, "value")
    if isinstance(value, BaseModel):
        return _encode_model(value)
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"the value cannot be written as JSON: {error}") from None


def _encode_model(value: BaseModel) -> bytes:
    """Return a model's JSON as the same model reads it: by alias, without computed fields."""
    try:
        # A field that was set to another type is an error, not a warning that quotes it.
        text = value.model_dump_json(by_alias=True, round_trip=True, warnings="error")
    except ValueError as error:  # its text may quote the payload
        fault = f"the {name_of(type(value))} cannot be written as JSON: {class_name(error)}"
        raise InvalidMessage(fault) from None
    return _utf8(text, "value")


def _require_types(submission: Submission) -> None:
    """Refuse values of other types than declared: a customer's number as a key, a UUID."""
    for what, given, kinds, wanted in (
        ("topic", submission.topic, str, "text"),
        ("key", submission.key, (bytes, str), "bytes or text"),
        ("request id", submission.request_id, str, "text"),
        ("deadline", submission.deadline_s, (int, float), "a number of seconds"),
    ):
        if not (given is None or isinstance(given, kinds)):
            raise InvalidMessage(f"the {what} is {wanted}, not {type(given).__name__}")


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(f"the {what} is text that UTF-8 cannot hold") from None


def _checked(headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
    for header in headers:
        match header:
            case (str() as name, bytes()):
                _utf8(name, "name of a header")
                if name.startswith(RESERVED):
                    raise InvalidMessage(f"a header that begins with {RESERVED} is ours: rename it")
            case _:
                raise InvalidMessage("headers are pairs of a name (text) and a value (bytes)")
    return tuple(headers)
