"""The decisions of the front door: a request in, an order or an answer out. Pure.

A submission: `order_of` makes it an order or a problem; the caller sends it; `accepted_answer` or
`not_sent` is the answer. 202 is said only of a request that Kafka has and Redis knows, or that was
accepted before. A repeat is never run a second time: its failure is reopened by `resend` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from feedback.errors import (
    InvalidMessage,
    InvalidValue,
    NotAvailable,
    NotSent,
    OncewardError,
    PayloadMismatch,
)
from feedback.records.envelope import new_request_id, payload_sha256
from feedback.records.schemas import SchemaFile, value_fault
from feedback.settings.http_section import HttpSection, HttpTopic
from feedback.status import State
from feedback.statuses import SHOWN, Status
from producer_client.http import idempotency_key, problems
from producer_client.http.answers import HttpAnswer
from producer_client.http.callers import Caller
from producer_client.http.ids import is_of, request_id_of
from producer_client.http.models import model_of, schema_of_model
from producer_client.http.problems import Problem

# Room for the headers of a record, beside its key and value.
RECORD_HEAD_BYTES = 2_048
SLOWEST_S = 30
# Of a number in a header: int() of a hostile text costs time, or fails.
MAX_DIGITS = 18
# Blanks without the newline, which separates: else a header of many costs their square.
_WAIT = re.compile(
    r"(?:^|[,;\n])[ \t]*wait[ \t]*=[ \t]*\"?(\d{1,6})\"?[ \t]*(?=[,;\n]|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class HttpOrder:
    """A submission that may be sent.

    Attributes:
        key: the idempotency key.
        message_key: Kafka's key; None for none.
        wait_s: how long the caller wants to wait for the outcome; None: not at all.
        warning: about its key; empty for none.
        prefix: its pages are below this path.
    """

    topic: str
    request_id: str
    key: str
    body: bytes = field(repr=False)
    message_key: str | None = field(default=None, repr=False)
    wait_s: float | None = None
    warning: str = ""
    prefix: str = ""


class TopicOffer:
    """The topics that are offered, with their rules and schemas.

    Args:
        section: `[http]`.
        max_request_bytes: the client's limit of key and value.

    Raises:
        SchemaError: the schema of a topic cannot be used.
        SettingsError: its model cannot be imported, or it has a schema as well.

    Attributes:
        topics: by their names.
        schemas: of those that have one, as others are shown it.
    """

    def __init__(self, section: HttpSection, *, max_request_bytes: int) -> None:
        self.topics = section.topics
        self._max_wait_s = section.max_wait_s
        self.max_body_bytes = min(section.max_body_bytes, max_request_bytes - RECORD_HEAD_BYTES)
        self._models = {
            name: model_of(name, one) for name, one in section.topics.items() if one.model
        }
        self._schemas = {
            name: SchemaFile(one.schema_file) for name, one in section.topics.items()
            if one.schema_file
        }  # fmt: skip
        for schema in self._schemas.values():
            schema.load()
        shown = {name: schema_of_model(one) for name, one in self._models.items()}
        self.schemas = {
            **{name: one.document() for name, one in self._schemas.items()},
            **{name: schema for name, schema in shown.items() if schema is not None},
        }

    def entry(self, topic: str, caller: Caller, headers: Mapping[str, str]) -> Problem | None:
        """Return why a submission is refused before its body is read; None: it is not."""
        offered = self.topics.get(topic)
        if offered is None:
            return Problem(problems.NO_SUCH_TOPIC)
        if not caller.submits_to(topic):
            return Problem(problems.NOT_ALLOWED)
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in offered.content_types:
            taken = ", ".join(offered.content_types)
            return Problem(problems.CONTENT_TYPE, f"taken: {taken}", headers={"Accept": taken})
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > MAX_DIGITS or int(length) > self.max_body_bytes):
            return self.too_large()
        return None

    def too_large(self) -> Problem:
        """Return the refusal of a body that is too long."""
        return Problem(problems.TOO_LARGE, f"at most {self.max_body_bytes} bytes are taken")

    def order_of(
        self,
        topic: str,
        caller: Caller,
        headers: Mapping[str, str],
        body: bytes,
        *,
        prefix: str = "",
    ) -> HttpOrder | Problem:
        """Return a submission as it is to be sent, or its refusal.

        Args:
            headers: by their names in lower case; several of one name joined by newlines.
        """
        if (refused := self.entry(topic, caller, headers)) is not None:
            return refused
        if len(body) > self.max_body_bytes:
            return self.too_large()
        key = _key_of(headers.get("idempotency-key"), self.topics[topic])
        if isinstance(key, Problem):
            return key
        if _is_json(headers) and not _can_be_read(body):
            return Problem(problems.MALFORMED, "the body is no JSON")
        return HttpOrder(
            topic=topic,
            request_id=request_id_of(caller.name, key.key),
            key=key.key,
            body=body,
            message_key=headers.get("onceward-key"),
            wait_s=self.wait_s(_preferred(headers.get("prefer", ""))),
            warning=key.warning,
            prefix=prefix,
        )

    def wait_s(self, asked: str | None) -> float | None:
        """Return for how long a caller is kept waiting; None for not at all."""
        if not asked or not asked.isdecimal():
            return None
        return min(float(asked[:6]), self._max_wait_s)

    def is_checked(self, topic: str) -> bool:
        """Whether the values of a topic have a model or a schema."""
        return topic in self._models or topic in self._schemas

    def fault(self, order: HttpOrder) -> str | None:
        """Return the fault of a value, without the value; None for a valid one.

        A user's validators run here: for as long as they like.
        """
        model, schema = self._models.get(order.topic), self._schemas.get(order.topic)
        return value_fault(order.body, model=model, schema=schema)


def may_see(caller: Caller, request_id: str, topic: str | None = None) -> bool:
    """Whether a caller may know of a request: it is its own, and of a topic that it may read."""
    return is_of(caller.name, request_id) and (topic is None or caller.reads(topic))


def accepted_answer(
    order: HttpOrder, status: Status, *, is_repeat: bool, now_ms: int, token: str
) -> HttpAnswer:
    """Return the answer to a submission that was accepted, now or before.

    Args:
        status: the request's status now.
        token: lets a browser follow it; empty for none.
    """
    document = {**document_of(status, token, order.prefix), "idempotency_key": order.key}
    is_awaited = order.wait_s is not None and status.state.is_final
    headers = {
        "Location": f"{order.prefix}/v1/requests/{order.request_id}",
        **status_headers(status, now_ms),
        **({"Preference-Applied": "respond-async"} if order.wait_s is not None else {}),
        **({"Idempotent-Replayed": "true"} if is_repeat else {}),
        **({"Warning": order.warning} if order.warning else {}),
    }
    # Also a repeat of a request that has ended is a 202, unless its caller asked to wait.
    return HttpAnswer(200 if is_awaited else 202, json.dumps(document).encode(), headers)


def not_sent(order: HttpOrder, error: OncewardError) -> Problem:
    """Return the refusal of a submission, by the error of its sending."""
    more = {"request_id": order.request_id, "idempotency_key": order.key}
    match error:
        case PayloadMismatch():
            return Problem(problems.OTHER_PAYLOAD, more=more)
        case InvalidValue():
            return Problem(problems.INVALID_VALUE, error.reason, more)
        case InvalidMessage():
            return Problem(problems.MALFORMED, error.reason, more)
        case NotSent():
            return Problem(problems.NOT_ACCEPTED, more=more)
        # SendUnknown; and Redis, which was away when the status of a repeat was read.
        case NotAvailable():
            return Problem(problems.UNKNOWN, more=more)
    raise error


def is_repeat_of(order: HttpOrder, known: Status) -> bool:
    """Whether a submission is what was sent under its id before."""
    key = None if order.message_key is None else order.message_key.encode()
    is_same = known.payload_sha256 == payload_sha256(key, order.body)
    return known.state is not State.UNKNOWN and is_same and known.topic in (None, order.topic)


def status_answer(
    status: Status, *, if_none_match: str | None, now_ms: int, prefix: str = ""
) -> HttpAnswer:
    """Return the answer to a question for a status."""
    headers = status_headers(status, now_ms)
    if if_none_match is not None and is_among(headers["ETag"], if_none_match):
        return HttpAnswer(304, headers=headers)
    return HttpAnswer(200, json.dumps(document_of(status, prefix=prefix)).encode(), headers)


def resendable(status: Status, if_match: str | None) -> Problem | None:
    """Return why a request is not sent again; None: it is.

    The caller names the failure that it has read: a repeat that arrives late must not reopen a
    later failure, after which the caller may have asked for the same under another key.
    """
    if not _is_resendable(status):
        return Problem(problems.NOT_RESENDABLE, f"it is {status.state}")
    if if_match is None:
        return Problem(problems.ETAG_MISSING)
    return None if is_among(etag_of(status), if_match) else Problem(problems.CHANGED)


def document_of(status: Status, token: str = "", prefix: str = "") -> dict[str, object]:
    """Return the status document: that of `Status.as_dict`, with links."""
    here = f"{prefix}/v1/requests/{status.request_id}"
    asked = f"?token={token}" if token else ""
    links = {"self": here, "events": f"{here}/events{asked}"}
    if _is_resendable(status):
        links["resend"] = f"{here}/resend"
    return {**status.as_dict(), "links": links, **({"read_token": token} if token else {})}


def _is_resendable(status: Status) -> bool:
    """Whether nobody has the request any more; one that is PENDING may yet be taken back."""
    has_failed = status.state is State.FAILED and status.resend
    return has_failed or status.state is State.LOST


def etag_of(status: Status) -> str:
    """Return the entity tag of a status: another one whenever the document differs."""
    seen = repr([getattr(status, name) for name in ("state", "generation", *SHOWN)])
    digest = blake2b(seen.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return f'"{digest}"'


def is_among(etag: str, header: str) -> bool:
    """Whether an entity tag is among those of `If-Match` or `If-None-Match`."""
    given = [one.strip().removeprefix("W/") for one in header.replace("\n", ",").split(",")]
    return header.strip() == "*" or etag in given


def retry_after_s(status: Status, now_ms: int) -> int:
    """Return when to ask again for a request that is open: the longer it stands, the later."""
    stands_s = (now_ms - (status.updated_at or now_ms)) // 1000
    return max(1, min(SLOWEST_S, stands_s // 10))


def status_headers(status: Status, now_ms: int) -> dict[str, str]:
    """Return the headers of an answer with a status document."""
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": "private, no-cache",
        "ETag": etag_of(status),
    }
    if not status.state.is_final:
        headers["Retry-After"] = str(retry_after_s(status, now_ms))
    return headers


def _key_of(header: str | None, topic: HttpTopic) -> idempotency_key.IdempotencyKey | Problem:
    if header is None:
        if topic.key == "required":
            return Problem(problems.KEY_MISSING)
        return idempotency_key.IdempotencyKey(new_request_id())
    found = idempotency_key.read_idempotency_key(header)
    if found is None:
        said = "Idempotency-Key is one string of RFC 9651, of 1 to 255 printable characters"
        return Problem(problems.MALFORMED, said)
    return found


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers["content-type"].lower().startswith("application/json")


def _can_be_read(body: bytes) -> bool:
    try:
        # Python's own reading is wider than JSON: UTF-16, NaN.
        json.loads(body.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _preferred(prefer: str) -> str | None:
    found = _WAIT.search(prefer)
    return found[1] if found else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)
