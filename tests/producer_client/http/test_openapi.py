"""`/openapi.json`: a valid document of the real pages, which real answers match."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi.openapi.models import OpenAPI, Operation, PathItem, Response
from starlette.applications import Starlette
from starlette.routing import Match, Route

from feedback.settings.settings import load
from feedback.status import State
from feedback.statuses import SHOWN
from producer_client import AsyncClient
from producer_client.http.authentication import authentication_of
from producer_client.http.door import TopicOffer
from producer_client.http.front_door import FrontDoor
from producer_client.http.ids import request_id_of
from producer_client.http.keys import KeyFile
from producer_client.http.metrics import DoorMetrics
from producer_client.http.openapi import document
from producer_client.http.problems import KINDS, TYPE
from producer_client.http.starlette_app import app, routes
from tests.kit.file_rights import everything_allowed
from tests.producer_client.http.conftest import Served, served
from tests.stack import Servers

METHODS = ("get", "post")
PAYMENT = {
    "type": "object",
    "required": ["amount"],
    "properties": {
        "amount": {"$ref": "money.json#/$defs/amount"},
        "parts": {"$ref": "#/$defs/part"},
    },
    "$defs": {"part": {"type": "object", "properties": {"parts": {"$ref": "#/$defs/part"}}}},
}
MONEY = {"$defs": {"amount": {"type": "integer", "minimum": 1}}}


@pytest.fixture
def topics(tmp_path: Path) -> dict[str, Any]:
    """Return two topics; one has a schema that refers to another file and contains itself."""
    (tmp_path / "payment.json").write_text(json.dumps(PAYMENT))
    (tmp_path / "money.json").write_text(json.dumps(MONEY))
    payments = {"schema": str(tmp_path / "payment.json")}
    return {"payments": payments, "seats": {"key": "optional", "content_types": ["text/plain"]}}


def _door(**section: Any) -> FrontDoor:
    return FrontDoor(AsyncClient(load(None, kafka={"group": "group"}, http=section)))


def _app(door: FrontDoor) -> Starlette:
    metrics = DoorMetrics()
    return app(door, authentication_of(door.client.settings.http), metrics)


def _document(*, has_probes: bool = True, **section: Any) -> dict[str, Any]:
    settings = load(None, http=section)
    offer = TopicOffer(settings.http, max_request_bytes=1_000_000)
    return document(settings.http, offer, has_probes=has_probes)


def _operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def _pages_of(found: Any, path: str, method: str) -> set[tuple[str, str]]:
    scope = {"type": "http", "path": path, "root_path": "", "method": method.upper()}
    return {(one.path, method) for one in found if one.matches(scope)[0] is Match.FULL}


@pytest.mark.parametrize("has_probes", [True, False])
def test_each_page_is_described_and_nothing_else(topics: dict[str, Any], has_probes: bool) -> None:
    door = _door(topics=topics)
    authentication = authentication_of(door.client.settings.http)
    found = _app(door).routes if has_probes else routes(door.client, authentication)
    real = {
        (one.path, method.lower())
        for one in found
        if isinstance(one, Route)
        for method in (one.methods or set()) - {"HEAD"}
    }
    described = _document(topics=topics, has_probes=has_probes)
    pages = [_pages_of(found, path, method) for path, method, _ in _operations(described)]
    assert [len(one) for one in pages] == [1] * len(pages)
    assert set().union(*pages) == real
    assert {f"/v1/{topic}" for topic in topics} < set(described["paths"])


def test_it_is_valid_openapi(topics: dict[str, Any]) -> None:
    described = _document(topics=topics, keys_file="keys", jwks="jwks", proxy_addresses=["::1"])
    assert described["openapi"].startswith("3.1.")
    OpenAPI.model_validate(described)
    for path, item in described["paths"].items():
        # The model of the whole takes anything for a page.
        PathItem.model_validate(item)
        needed = set(re.findall(r"\{(\w+)\}", path))
        named = {one["name"] for one in item.get("parameters", []) if one["in"] == "path"}
        assert named == needed
    names = []
    for _, _, operation in _operations(described):
        Operation.model_validate(operation)
        for status, answer in operation["responses"].items():
            assert 200 <= int(status) < 600
            Response.model_validate(answer)
        names.append(operation["operationId"])
        for way in operation.get("security", described["security"]):
            assert set(way) <= set(described["components"]["securitySchemes"])
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.-]+", one) for one in described["components"]["schemas"])


def test_its_references_lead_somewhere_and_its_schemas_are_json_schemas(
    topics: dict[str, Any],
) -> None:
    tips = {"model": "tests.producer_client.http.test_door:Payment"}
    described = _document(topics=topics | {"tips": tips})
    references = list(_all(described, "$ref"))
    assert len(references) > 50
    for one in references:
        at: Any = described
        assert one.startswith("#/")
        for name in one[2:].split("/"):
            at = at[name]
    schemas = [*_all(described, "schema"), *described["components"]["schemas"].values()]
    for one in schemas:
        jsonschema_rs.meta.validate(one)


def _all(part: Any, name: str) -> Iterator[Any]:
    if isinstance(part, list):
        for one in part:
            yield from _all(one, name)
    elif isinstance(part, dict):
        if name in part:
            yield part[name]
        for one in part.values():
            yield from _all(one, name)


def test_a_topic_has_its_own_rules(topics: dict[str, Any], tmp_path: Path) -> None:
    described = _document(topics=topics, max_body_bytes=77)
    payments, seats = (described["paths"][f"/v1/{one}"]["post"] for one in topics)
    assert [one["parameters"][0]["required"] for one in (payments, seats)] == [True, False]
    assert list(payments["requestBody"]["content"]) == ["application/json"]
    assert seats["requestBody"]["content"] == {"text/plain": {"schema": {}}}
    assert "at most 77 bytes" in payments["requestBody"]["description"].lower()
    taken = payments["requestBody"]["content"]["application/json"]["schema"]
    check = _checker(described, taken)
    assert check.is_valid({"amount": 5, "parts": {"parts": {"parts": {}}}})
    for wrong in ({}, {"amount": 0}, {"amount": 5, "parts": {"parts": {"parts": 7}}}):
        assert not check.is_valid(wrong)
    # A stranger is shown no folder of this host.
    assert str(tmp_path) not in json.dumps(described)


def test_its_words_are_those_of_the_code() -> None:
    schemas = _document(topics=["payments"])["components"]["schemas"]
    status = schemas["Status"]["properties"]
    assert set(status) == {"request_id", "state", "final", "links", *SHOWN}
    kinds = set().union(*_all(_document(topics=["payments"]), "enum")) - {str(one) for one in State}
    # Only of addresses that it does not have.
    elsewhere = {"no-such-topic", "no-such-page", "no-such-method"}
    assert kinds == {TYPE + one.name for one in KINDS if one.name not in elsewhere}


@pytest.mark.parametrize(
    ("section", "ways"),
    [
        ({}, [{}]),
        ({"keys_file": "keys"}, [{"apiKey": []}]),
        ({"jwks": "jwks", "keys_file": "keys"}, [{"apiKey": []}, {"token": []}]),
        ({"proxy_addresses": ["::1"], "proxy_header": "X-User"}, [{"proxy": []}]),
    ],
)
def test_callers_are_known_by_the_ways_of_the_settings(
    section: dict[str, Any], ways: list[Any]
) -> None:
    described = _document(topics=["payments"], **section)
    assert described["security"] == ways
    schemes = described["components"]["securitySchemes"]
    assert set(schemes) == {"readToken"}.union(*ways)
    if "proxy" in schemes:
        assert schemes["proxy"]["name"] == "X-User"
    status = described["paths"]["/v1/requests/{request_id}"]["get"]
    assert status["security"] == [*ways, {"readToken": []}]


def test_a_stranger_is_not_shown_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    with everything_allowed():
        _, text = KeyFile(keys).create("shop", submit=None, read=None)
    found = _app(_door(topics=["payments"], keys_file=str(keys)))
    assert _get(found, "/openapi.json").status_code == 401
    known = _get(found, "/openapi.json", Authorization=f"Bearer {text}")
    assert known.headers["Content-Type"] == "application/json"
    assert "/v1/payments" in known.json()["paths"]
    assert known.json()["servers"] == [{"url": "/"}]
    assert _get(found, "/openapi.html").status_code == 401


class Shown(HTMLParser):
    """A page's ids, its links, and whatever it would load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        given = dict(attrs)
        self.tags.add(tag)
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given["href"])] if "href" in given else []
        assert not {"src", "style", "onload", "onclick"} & set(given)


def test_its_page_shows_all_of_it_and_runs_nothing(topics: dict[str, Any], tmp_path: Path) -> None:
    hostile = {"type": "object", "description": "<script>alert(1)</script>"}
    (tmp_path / "tips.json").write_text(json.dumps(hostile))
    topics["tips"] = {"schema": str(tmp_path / "tips.json")}
    answer = _get(_app(_door(topics=topics)), "/openapi.html")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    shown, described = Shown(answer.text), _document(topics=topics)
    operations = [one["operationId"] for _, _, one in _operations(described)]
    assert sorted(shown.ids) == sorted([*operations, *described["components"]["schemas"]])
    assert {one.removeprefix("#") for one in shown.links} - set(shown.ids) == {"openapi.json"}
    assert "#topic.payments" in shown.links
    assert shown.tags.isdisjoint({"script", "link", "img", "iframe", "form"})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text


def _get(found: Starlette, path: str, **headers: str) -> httpx.Response:
    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=found)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(get())


def _checker(described: dict[str, Any], schema: Any) -> Any:
    # Stricter than clients are told to be: it takes no member beside those described.
    strict = {"allOf": [schema], "unevaluatedProperties": schema == {"type": "object"}}
    whole = strict | {"components": described["components"]}
    return jsonschema_rs.validator_for(whole, validate_formats=True)


def _check(described: dict[str, Any], path: str, answer: httpx.Response) -> None:
    """Compare an answer with its description: its status, headers, content type and document."""
    operation = described["paths"][path][answer.request.method.lower()]
    told = operation["responses"][str(answer.status_code)]
    headers = told.get("headers", {})
    components = described["components"]["headers"]
    for name in headers:
        assert name in answer.headers or not components[name].get("required"), name
    sent = {one for one in components if one in answer.headers}
    assert sent <= set(headers), sent - set(headers)
    if "content" not in told:
        assert answer.content == b""
        return
    kind = answer.headers["Content-Type"].partition(";")[0]
    content = told["content"][kind]
    found = answer.json() if "json" in kind else answer.text
    _checker(described, content["schema"]).validate(found)


def test_answers_are_as_described(front: Served) -> None:
    described = front.http.get("/openapi.json").json()
    key = uuid.uuid4().hex
    submit, one = f"/v1/{front.topic}", "/v1/requests/{request_id}"
    accepted = front.post(key)
    place = accepted.headers["Location"]
    request_id = place.rpartition("/")[2]
    seen = front.http.get(place)
    known = {"If-None-Match": seen.headers["ETag"]}
    front.worker.tell(request_id, State.FAILED, code="BANK_AWAY", message="away", resend="1")
    failed = front.http.get(place)
    read = {"If-Match": failed.headers["ETag"]}
    resend = f"{place}/resend"
    cases = [
        (202, submit, accepted),
        (202, submit, front.post(key, Idempotency_Key=key)),
        (200, submit, front.post(key, Prefer="wait=5")),
        (400, submit, front.http.post(submit, json=1)),
        (415, submit, front.post(key, Content_Type="text/plain")),
        (422, submit, front.post(key, body=b"7")),
        (200, one, seen),
        (304, one, front.http.get(place, headers={"If-None-Match": failed.headers["ETag"]})),
        (200, one, front.http.get(place, headers=known)),
        *((400, one, front.http.get(f"{place}?wait={wait}")) for wait in ("-1", "x", "", "1.5")),
        (404, one, front.http.get(f"/v1/requests/{request_id_of('', 'nobody')}")),
        (404, f"{one}/events", front.http.get(f"{place}x/events")),
        (428, f"{one}/resend", front.http.post(resend)),
        (412, f"{one}/resend", front.http.post(resend, headers={"If-Match": '"x"'})),
        (202, f"{one}/resend", front.http.post(resend, headers=read)),
        (409, f"{one}/resend", front.http.post(resend, headers=read)),
        *((200, page, front.http.get(page)) for page in ("/live", "/ready", "/metrics")),
        *((200, page, front.http.get(page)) for page in ("/onceward.js", "/openapi.json")),
    ]
    assert [answer.status_code for _, _, answer in cases] == [status for status, _, _ in cases]
    for _, path, answer in cases:
        _check(described, path, answer)


def test_an_answer_that_accepts_nothing_is_as_described(servers: Servers, refusing: str) -> None:
    away = {"kafka": {"bootstrap_servers": refusing}, "client": {"send_timeout_s": 1}}
    with served(servers, **away) as front:
        answer = front.post("order-7")
        assert answer.status_code == 503
        _check(front.http.get("/openapi.json").json(), f"/v1/{front.topic}", answer)
