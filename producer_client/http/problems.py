"""The refusals of the front door: problem documents of RFC 9457 (docs: The front door's pages).

A problem's `type` is stable: programs decide by it, and by nothing else in the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from producer_client.http.answers import HttpAnswer

TYPE = "urn:onceward:problem:"
MEDIA_TYPE = "application/problem+json"
AGAIN_S = 5

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ProblemKind(NamedTuple):
    """One kind of problem: the end of its type, its status and its title."""

    name: str
    status: int
    title: str


MALFORMED = ProblemKind("malformed", 400, "The request is malformed")
KEY_MISSING = ProblemKind("key-missing", 400, "This topic requires an Idempotency-Key")
NOT_AUTHENTICATED = ProblemKind("not-authenticated", 401, "Who calls is not known")
NOT_ALLOWED = ProblemKind("not-allowed", 403, "The caller may not do this with this topic")
NOT_FOUND = ProblemKind("not-found", 404, "There is no such request")
NO_SUCH_TOPIC = ProblemKind("no-such-topic", 404, "This topic is not offered")
NO_SUCH_PAGE = ProblemKind("no-such-page", 404, "There is no such page")
NO_SUCH_METHOD = ProblemKind("no-such-method", 405, "The page does not have this method")
TOO_SLOW = ProblemKind("too-slow", 408, "The body did not arrive in time")
NOT_RESENDABLE = ProblemKind("not-resendable", 409, "A resend does not help this request")
CHANGED = ProblemKind("changed", 412, "The request has changed since it was read")
TOO_LARGE = ProblemKind("too-large", 413, "The body is too long")
CONTENT_TYPE = ProblemKind("content-type", 415, "This topic does not take this content type")
OTHER_PAYLOAD = ProblemKind("other-payload", 422, "The key was used for another payload")
INVALID_VALUE = ProblemKind("invalid-value", 422, "The value does not match the topic's schema")
ETAG_MISSING = ProblemKind(
    "etag-missing", 428, "A resend needs If-Match: the failure that was read"
)
TOO_MANY = ProblemKind("too-many", 429, "The caller asks too often")
INTERNAL = ProblemKind("internal", 500, "The front door failed")
NOT_ACCEPTED = ProblemKind(
    "not-accepted", 503, "Not accepted, and it will never run: send it again"
)
UNKNOWN = ProblemKind(
    "unknown", 503, "Not known whether it was accepted: send it again under its key"
)
UNAVAILABLE = ProblemKind("unavailable", 503, "The status cannot be read now: ask again")

KINDS = tuple(one for one in dict(globals()).values() if isinstance(one, ProblemKind))


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal.

    Attributes:
        detail: one sentence about this occurrence, without payload and secret.
        more: further members of the document.
        headers: further headers of the answer.
    """

    kind: ProblemKind
    detail: str = ""
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def answer(self) -> HttpAnswer:
        """Return the answer that says it."""
        name, status, title = self.kind
        document = {"type": TYPE + name, "title": title, "status": status}
        if self.detail:
            document["detail"] = self.detail
        again = {"Retry-After": str(AGAIN_S)} if status == 503 else {}
        headers = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **again, **self.headers}
        return HttpAnswer(status, json.dumps({**document, **self.more}).encode(), headers)
