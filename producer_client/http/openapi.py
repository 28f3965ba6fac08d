"""The OpenAPI 3.1 document of the front door: its pages, topics, schemas and problems. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from feedback import __version__
from feedback.settings.http_section import HttpSection, HttpTopic
from feedback.status import State
from producer_client.http import problems
from producer_client.http.door import TopicOffer
from producer_client.http.problems import MEDIA_TYPE, TYPE, ProblemKind

Part = dict[str, Any]

JSON = "application/json"
ONE = "/v1/requests/{request_id}"

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": "integer", "description": "Epoch milliseconds."}
_ID = {"type": "string", "pattern": "^[0-9a-f]{24}-[0-9a-f]{40}$"}
_PLACE = {"type": "string", "format": "uri-reference"}
_KEY = {
    "type": "string",
    "pattern": r'^(?:"(?:[ !#-\[\]-~]|\\["\\]){1,255}"|[!#-+\--:<-~]{1,255})$',
    "description": 'Names the action, in quotes: `"order-7"`.',
}
_STATUS: Part = {
    "type": "object",
    "required": ["request_id", "state", "final", "attempt", "resend", "links"],
    "properties": {
        "request_id": _ID,
        "state": {"enum": [str(one) for one in State]},
        "final": {**_FLAG, "description": "It has ended, and does not run again by itself."},
        "attempt": _COUNT,
        "code": _TEXT,
        "message": _TEXT,
        "result": {"description": "The handler's return value."},
        "resend": {**_FLAG, "description": "Of FAILED: a resend may help."},
        "by": {**_TEXT, "description": "Of SKIPPED: the request that succeeded in its stead."},
        "due_at": _TIME,
        "updated_at": _TIME,
        "deadline_at": _TIME,
        "topic": _TEXT,
        "links": {
            "type": "object",
            "required": ["self", "events"],
            "properties": {"self": _PLACE, "events": _PLACE, "resend": _PLACE},
        },
    },
}
_ACCEPTED: Part = {
    "allOf": [{"$ref": "#/components/schemas/Status"}],
    "required": ["idempotency_key", "read_token"],
    "properties": {
        "idempotency_key": _TEXT,
        "read_token": {**_TEXT, "description": "Follows this request for 15 minutes."},
    },
}
_PROBLEM: Part = {
    "type": "object",
    "description": "RFC 9457. Decide by `type`.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": _TEXT,
        "status": _COUNT,
        "detail": _TEXT,
        "request_id": _ID,
        "idempotency_key": _TEXT,
    },
}
_HEADERS: Part = {
    "Accept": {"description": "The content types that are taken.", "schema": _TEXT},
    "ETag": {"description": "Changes with the document.", "required": True, "schema": _TEXT},
    "Idempotent-Replayed": {"description": "It is a repeat.", "schema": {"const": "true"}},
    "Location": {"description": "The request's page.", "required": True, "schema": _PLACE},
    "Preference-Applied": {"description": "It has waited.", "schema": _TEXT},
    "Retry-After": {"description": "When to ask again, in seconds.", "schema": _COUNT},
    "Warning": {"description": "About the `Idempotency-Key`.", "schema": _TEXT},
    "WWW-Authenticate": {"description": "The way in.", "required": True, "schema": _TEXT},
}
_OF_A_SUBMISSION = (
    "Location", "ETag", "Retry-After", "Idempotent-Replayed", "Preference-Applied", "Warning",
)  # fmt: skip
_OF_A_REFUSAL = {
    401: ("WWW-Authenticate",),
    415: ("Accept",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
# Any page that knows its caller may answer with these.
_ANYWHERE = (
    problems.NOT_AUTHENTICATED, problems.TOO_MANY, problems.INTERNAL, problems.UNAVAILABLE,
)  # fmt: skip
_OF_ONE = [{"name": "request_id", "in": "path", "required": True, "schema": _ID}]


def document(section: HttpSection, offer: TopicOffer, *, has_probes: bool) -> Part:
    """Return the document.

    Args:
        has_probes: the pages of a process of its own are served as well.
    """
    ways = _ways(section)
    callers: list[Part] = [{name: []} for name in ways] or [{}]
    submissions = {
        f"/v1/{name}": {"post": _submission(name, topic, offer)}
        for name, topic in offer.topics.items()
    }
    pages = {**_pages_of_one(callers), **_pages_of_the_door(), **(_probes() if has_probes else {})}
    schemas = {
        f"topic.{name}": _moved(schema, f"#/components/schemas/topic.{name}")
        for name, schema in offer.schemas.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Onceward",
            "version": __version__,
            "description": "Requests that must not run twice: submit one, and follow it.",
        },
        "security": callers,
        "paths": {**submissions, **pages},
        "components": {
            "schemas": {"Status": _STATUS, "Accepted": _ACCEPTED, "Problem": _PROBLEM, **schemas},
            "headers": _HEADERS,
            "securitySchemes": {**ways, "readToken": _key_in("query", "token")},
        },
    }


def _ways(section: HttpSection) -> Part:
    """Return the ways of the settings to recognise callers."""
    bearer = {"type": "http", "scheme": "bearer"}
    ways: Part = {}
    if section.proxy_addresses:
        told = "Set by the proxy in front, never by its callers."
        ways["proxy"] = _key_in("header", section.proxy_header) | {"description": told}
    if section.keys_file:
        ways["apiKey"] = bearer | {"description": "A key of `onceward-client keys create`."}
    if section.jwks:
        ways["token"] = bearer | {"bearerFormat": "JWT"}
    return ways


def _moved(part: Any, here: str) -> Any:
    """Return a part of a schema whose references to itself begin at the top of the document."""
    if isinstance(part, list):
        return [_moved(one, here) for one in part]
    if not isinstance(part, dict):
        return part
    moved = {name: _moved(one, here) for name, one in part.items() if name != "$id"}
    target = moved.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        moved["$ref"] = here + target[1:]
    return moved


def _key_in(place: str, name: str) -> Part:
    return {"type": "apiKey", "in": place, "name": name}


def _submission(name: str, topic: HttpTopic, offer: TopicOffer) -> Part:
    accepted = _answer("Accepted: it is durable, now or before.", "Accepted", *_OF_A_SUBMISSION)
    accepted["links"] = {
        page: {"operationId": page, "parameters": {"request_id": "$response.body#/request_id"}}
        for page in ("status", "resend")
    }
    schema = {"$ref": f"#/components/schemas/topic.{name}"} if name in offer.schemas else {}
    needed = (problems.KEY_MISSING,) if topic.key == "required" else ()
    return {
        "operationId": f"submit-{name}",
        "summary": f"Submit a request to {name}.",
        "parameters": [
            _header("Idempotency-Key", _KEY, required=topic.key == "required"),
            _header("Onceward-Key", {**_TEXT, "description": "The key of the Kafka record."}),
            _header("Prefer", {**_TEXT, "examples": ["respond-async, wait=10"]}),
        ],
        "requestBody": {
            "required": True,
            "description": f"At most {offer.max_body_bytes} bytes.",
            "content": {one: {"schema": schema} for one in topic.content_types},
        },
        "responses": {
            "200": _answer("The outcome, waited for.", "Accepted", *_OF_A_SUBMISSION),
            "202": accepted,
            **_refusals(
                problems.MALFORMED, *needed, problems.NOT_ALLOWED, problems.TOO_SLOW,
                problems.TOO_LARGE, problems.CONTENT_TYPE, problems.OTHER_PAYLOAD,
                problems.INVALID_VALUE, problems.NOT_ACCEPTED, problems.UNKNOWN,
            ),
        },
    }  # fmt: skip


def _pages_of_one(callers: list[Part]) -> Part:
    readers = [*callers, {"readToken": []}]
    wait = {"name": "wait", "in": "query", "schema": {**_COUNT, "description": "Seconds."}}
    status = {
        "operationId": "status",
        "summary": "Read the status of a request, or wait for news of it.",
        "security": readers,
        "parameters": [wait, _header("If-None-Match", _TEXT)],
        "responses": {
            "200": _answer("The status.", "Status", "ETag", "Retry-After"),
            "304": {"description": "No news.", "headers": _headers("ETag", "Retry-After")},
            **_refusals(problems.MALFORMED, problems.NOT_FOUND),
        },
    }
    events = {
        "operationId": "events",
        "summary": "Follow a request: events named `status`, with a Status as data.",
        "security": readers,
        "parameters": [_header("Last-Event-ID", _TEXT)],
        "responses": {
            "200": {"description": "A stream.", "content": {"text/event-stream": {}}},
            "204": {"description": "The last event was the end."},
            **_refusals(problems.NOT_FOUND),
        },
    }
    return {
        ONE: {"parameters": _OF_ONE, "get": status},
        f"{ONE}/events": {"parameters": _OF_ONE, "get": events},
        f"{ONE}/resend": {"parameters": _OF_ONE, "post": _resend()},
    }


def _resend() -> Part:
    tag = {**_TEXT, "description": "The ETag of the failure that was read."}
    return {
        "operationId": "resend",
        "summary": "Send a request again that has failed, or whose worker died.",
        "parameters": [_header("If-Match", tag, required=True)],
        "responses": {
            "202": _answer("Accepted again.", "Status", "ETag", "Retry-After"),
            **_refusals(
                problems.NOT_ALLOWED, problems.NOT_FOUND, problems.NOT_RESENDABLE,
                problems.CHANGED, problems.ETAG_MISSING, problems.UNKNOWN,
            ),
        },
    }  # fmt: skip


def _pages_of_the_door() -> Part:
    return {
        "/openapi.json": _described("openapi", JSON, {"type": "object"}),
        "/openapi.html": _described("openapi-page", "text/html", _TEXT),
        "/onceward.js": _public("browser-module", ("200",), "text/javascript", "ETag"),
    }


def _described(name: str, content_type: str, schema: Part) -> Part:
    here = {"description": "This document.", "content": {content_type: {"schema": schema}}}
    return {"get": {"operationId": name, "responses": {"200": here, **_refusals()}}}


def _probes() -> Part:
    return {
        "/live": _public("live", ("200",), "text/plain"),
        "/ready": _public("ready", ("200", "503"), "text/plain"),
        "/metrics": _public("metrics", ("200",), "text/plain"),
    }


def _public(name: str, statuses: tuple[str, ...], content_type: str, *headers: str) -> Part:
    content = {content_type: {"schema": _TEXT}}
    answer = {"description": name, "headers": _headers(*headers), "content": content}
    responses = dict.fromkeys(statuses, answer)
    return {"get": {"operationId": name, "security": [], "responses": responses}}


def _header(name: str, schema: Mapping[str, Any], *, required: bool = False) -> Part:
    return {"name": name, "in": "header", "required": required, "schema": schema}


def _headers(*names: str) -> Part:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _answer(description: str, schema: str, *headers: str) -> Part:
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "headers": _headers(*headers), "content": content}


def _refusals(*kinds: ProblemKind) -> Part:
    by_status = defaultdict[int, list[ProblemKind]](list)
    for kind in (*kinds, *_ANYWHERE):
        by_status[kind.status].append(kind)
    return {str(status): _refusal(status, same) for status, same in sorted(by_status.items())}


def _refusal(status: int, kinds: list[ProblemKind]) -> Part:
    types = [TYPE + one.name for one in kinds]
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Problem"}],
        "properties": {"type": {"enum": types}, "status": {"const": status}},
    }
    return {
        "description": "; ".join(one.title for one in kinds),
        "headers": _headers(*_OF_A_REFUSAL.get(status, ())),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
