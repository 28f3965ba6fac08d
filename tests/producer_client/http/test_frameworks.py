"""One table of requests and answers for every framework: the draft's rules, Azure's, and ours."""

from __future__ import annotations

import importlib
import json
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from flask import Flask, abort
from prometheus_client import CollectorRegistry

from feedback.redis.server import connect
from feedback.settings.settings import Settings, load
from feedback.status import State
from producer_client import AsyncClient
from producer_client.http.callers import Caller
from producer_client.http.django_urls import django_urls
from producer_client.http.flask_blueprint import blueprint_of, flask_blueprint
from producer_client.http.ids import request_id_of
from producer_client.http.starlette_app import routes
from producer_client.http.threads import PagesForThreads
from producer_client.outbox import migrate
from tests.documents import code_shown_in, examples
from tests.eventually import eventually
from tests.kit.settings import write_settings
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.http.conftest import NamedByHeader, create_topics, name_of_topic
from tests.producer_client.http.sites import PREFIX, SITES, django_served, wsgi_served
from tests.producer_client.records import records_of
from tests.stack import Servers

AtOnce = Callable[..., Future[Any]]


class Site(NamedTuple):
    """A site of one framework, and the worker's part of its group."""

    http: httpx.Client
    settings: Settings
    worker: Worker

    def post(self, key: str = "", body: bytes = b"{}", **headers: str) -> httpx.Response:
        """Submit to the first topic; underscores in names of headers are dashes."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"Content-Type": "application/json", "Idempotency-Key": f'"{key}"', **given}
        return self.http.post(f"{PREFIX}/v1/{self.topics[0]}", content=body, headers=named)

    @property
    def topics(self) -> list[str]:
        """The topics that are offered: a key is required, optional."""
        return list(self.settings.http.topics)


# FastAPI mounts Starlette's routes, and Django's two kinds of servers have the same views.
ALIKE = ("fastapi", "django")
KINDS = [pytest.param(one, marks=pytest.mark.long) if one in ALIKE else one for one in SITES]


@pytest.fixture(scope="module", params=KINDS)
def site(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Site]:
    """Yield a site of each framework."""
    required, optional = name_of_topic(), name_of_topic()
    create_topics(servers, required, optional)
    topics: dict[str, Any] = {required: {}, optional: {"key": "optional"}}
    http = {"topics": topics, "heartbeat_s": 0.2, "max_body_bytes": 1000, "max_wait_s": 5}
    settings = load(
        None,
        kafka={"bootstrap_servers": servers.kafka, "group": f"group-{uuid.uuid4().hex}"},
        redis={"url": servers.redis},
        client={"poll_interval_s": 0.2},
        http=http,
    )
    redis = connect(settings.redis)
    with SITES[request.param](settings) as client:
        yield Site(client, settings, Worker(redis, settings.kafka.group, settings.redis))
    redis.close()


@pytest.fixture
def key() -> str:
    """Return a key nobody else uses."""
    return uuid.uuid4().hex


JSON = {"Content-Type": "application/json"}
# The headers, the body, and the answer: its status and the end of its problem's type.
REFUSED: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "the draft: a required key that is missing": (JSON, b"{}", 400, "key-missing"),
    "the draft: a key that is no string": (
        JSON | {"Idempotency-Key": '"a'}, b"{}", 400, "malformed"
    ),
    "the draft: two keys": (JSON | {"Idempotency-Key": '"a", "b"'}, b"{}", 400, "malformed"),
    "an empty key": (JSON | {"Idempotency-Key": '""'}, b"{}", 400, "malformed"),
    "a body that is no JSON": (JSON | {"Idempotency-Key": '"a"'}, b"{", 400, "malformed"),
    "no body": (JSON | {"Idempotency-Key": '"a"'}, b"", 400, "malformed"),
    "another content type": (
        {"Content-Type": "text/plain", "Idempotency-Key": '"a"'}, b"{}", 415, "content-type"
    ),
    "a body that is too long": (
        JSON | {"Idempotency-Key": '"a"'}, b'"' + b"x" * 1000 + b'"', 413, "too-large"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "body", "status", "kind"), REFUSED.values(), ids=REFUSED)
def test_a_submission_is_refused_by_a_problem_document(
    site: Site, headers: dict[str, str], body: bytes, status: int, kind: str
) -> None:
    page = f"{PREFIX}/v1/{site.topics[0]}"
    assert _kind(site.http.post(page, content=body, headers=headers)) == (status, kind)


def test_pages_that_are_not_there(site: Site) -> None:
    assert _kind(site.http.post(f"{PREFIX}/v1/others", json=1)) == (404, "no-such-topic")
    assert site.http.get(f"{PREFIX}/v1/{site.topics[0]}").status_code == 405
    for page in ("nobody", "nobody/events", f"{'0' * 24}-{'0' * 40}?token=x"):
        answer = site.http.get(f"{PREFIX}/v1/requests/{page}")
        assert _kind(answer) == (404, "not-found")


def test_azures_way_of_a_long_operation(site: Site, key: str) -> None:
    """202 with `Location` and `Retry-After`; that page until its status is final."""
    accepted = site.post(key, Onceward_Key="card-1")
    assert (accepted.status_code, accepted.headers["Retry-After"]) == (202, "1")
    place = accepted.headers["Location"]
    request_id = accepted.json()["request_id"]
    assert place == f"{PREFIX}/v1/requests/{request_id}"
    # Durable before the 202.
    assert site.worker.store.read(request_id).state is State.PENDING
    kafka = site.settings.kafka.bootstrap_servers
    assert (b"card-1", b"{}") in [(one.key, one.value) for one in records_of(kafka, site.topics[0])]
    seen = site.http.get(place)
    assert (seen.status_code, seen.headers["Content-Type"]) == (200, "application/json")
    assert seen.json()["links"]["self"] == place
    known = {"If-None-Match": seen.headers["ETag"]}
    unchanged = site.http.get(place, headers=known)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert site.http.head(place).status_code == 200
    site.worker.tell(request_id, State.SUCCEEDED, result="7")
    ended = site.http.get(place, headers=known)
    assert (ended.status_code, ended.json()["result"], ended.json()["final"]) == (200, 7, True)
    assert "Retry-After" not in ended.headers


def test_the_drafts_repeats(site: Site, key: str) -> None:
    first, again = site.post(key), site.post(key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    assert again.headers["Location"] == first.headers["Location"]
    assert "Idempotent-Replayed" not in first.headers
    assert _kind(site.post(key, b"[]")) == (422, "other-payload")
    bare = site.post(key, Idempotency_Key=key)
    assert bare.headers["Location"] == first.headers["Location"]
    assert bare.headers["Warning"].startswith("299 ")


@pytest.mark.parametrize("part", [b"10", b""])
def test_half_a_body_is_no_submission(site: Site, key: str, part: bytes) -> None:
    head = f"POST {PREFIX}/v1/{site.topics[0]} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    head += (
        f'Content-Type: application/json\r\nIdempotency-Key: "{key}"\r\nContent-Length: 4\r\n\r\n'
    )
    assert answer_to(site, head.encode() + part, is_cut=True)[:1] != b"2"
    # The whole of it is the first one under its key.
    whole = site.post(key, b"1000")
    assert (whole.status_code, whole.headers.get("Idempotent-Replayed")) == (202, None)


def test_a_body_that_does_not_reach_the_application_is_not_an_empty_one(
    site: Site, key: str
) -> None:
    head = f"POST {PREFIX}/v1/{site.topics[0]} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    head += f'Content-Type: application/json\r\nIdempotency-Key: "{key}"\r\n'
    sent = f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n42\r\n0\r\n\r\n".encode()
    if answer_to(site, sent, is_cut=False)[:1] == b"2":
        assert site.post(key, b"42").headers["Idempotent-Replayed"] == "true"
    else:
        assert "Idempotent-Replayed" not in site.post(key, b"42").headers


def answer_to(site: Site, sent: bytes, *, is_cut: bool) -> bytes:
    """Return the status of what a server answers to these bytes, and to the end of them if cut."""
    at = (site.http.base_url.host, site.http.base_url.port)
    with socket.create_connection(at, timeout=20) as connection:
        connection.sendall(sent)
        if is_cut:
            connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").readline().partition(b" ")[2]


def test_a_topic_whose_key_is_optional_makes_one(site: Site) -> None:
    page = f"{PREFIX}/v1/{site.topics[1]}"
    one, other = (site.http.post(page, json=1).json() for _ in "ab")
    assert one["idempotency_key"] != other["idempotency_key"]


def test_callers_see_their_own_alone(site: Site, key: str) -> None:
    shop = site.post(key, X_Name="shop")
    bank = site.post(key, b"[]", X_Name="bank")
    assert (shop.status_code, bank.status_code) == (202, 202)
    place = shop.headers["Location"]
    assert site.http.get(place, headers={"X-Name": "shop"}).status_code == 200
    stolen = site.http.get(place, headers={"X-Name": "bank"})
    assert _kind(stolen) == (404, "not-found")
    token = shop.json()["read_token"]
    assert site.http.get(f"{place}?token={token}").json()["request_id"] in place


def test_a_wait_ends_with_the_outcome(site: Site, key: str, at_once: AtOnce) -> None:
    place = site.post(key).headers["Location"]
    request_id = place.rpartition("/")[2]
    held = at_once(site.http.get, f"{place}?wait=5")
    waiting = at_once(site.post, key, Prefer="respond-async, wait=5")
    eventually(lambda: site.worker.store.read(request_id).attempt == 2)
    site.worker.tell(request_id, State.SUCCEEDED, result="7")
    assert (held.result().status_code, held.result().json()["result"]) == (200, 7)
    assert (waiting.result().status_code, waiting.result().json()["result"]) == (200, 7)


def test_a_stream_begins_with_the_status_and_ends_with_the_end(site: Site, key: str) -> None:
    accepted = site.post(key).json()
    page, request_id = accepted["links"]["events"], accepted["request_id"]
    with site.http.stream("GET", page) as stream:
        assert stream.status_code == 200
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert _next(lines, "data: ")["state"] == "PENDING"
        site.worker.tell(request_id, State.RUNNING)
        assert _next(lines, "data: ")["state"] == "RUNNING"
        site.worker.tell(request_id, State.SUCCEEDED, result="7")
        assert _next(lines, "data: ")["result"] == 7
        assert [one for one in lines if one] == []
    tag = site.http.get(accepted["links"]["self"]).headers["ETag"]
    over = site.http.get(page, headers={"Last-Event-ID": tag})
    assert (over.status_code, over.content) == (204, b"")
    # A browser that leaves in the middle leaves nothing behind.
    with site.http.stream("GET", site.post(f"{key}-2").json()["links"]["events"]) as stream:
        next(stream.iter_lines())


def test_a_failure_is_sent_again_once_it_was_read(site: Site, key: str) -> None:
    place = site.post(key).headers["Location"]
    assert _kind(site.http.post(f"{place}/resend")) == (409, "not-resendable")
    site.worker.tell(place.rpartition("/")[2], State.FAILED, code="BANK_AWAY", resend="1")
    assert _kind(site.http.post(f"{place}/resend")) == (428, "etag-missing")
    assert _kind(site.http.post(f"{place}/resend", headers={"If-Match": '"x"'})) == (412, "changed")
    read = {"If-Match": site.http.get(place).headers["ETag"]}
    resent = site.http.post(f"{place}/resend", headers=read)
    assert (resent.status_code, resent.json()["state"]) == (202, "PENDING")


def test_each_site_describes_itself(site: Site) -> None:
    described = site.http.get(f"{PREFIX}/openapi.json").json()
    assert described["servers"] == [{"url": PREFIX}]
    assert f"/v1/{site.topics[0]}" in described["paths"]
    module = site.http.get(f"{PREFIX}/onceward.js")
    assert module.headers["Content-Type"] == "text/javascript; charset=utf-8"


def _kind(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].removeprefix("urn:onceward:problem:")


def _next(lines: Iterator[str], begin: str) -> Any:
    return json.loads(next(one for one in lines if one.startswith(begin)).removeprefix(begin))


@pytest.mark.parametrize("framework", ["flask", "django"])
def test_the_example_of_the_page_runs(
    framework: str, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = f"tests/producer_client/http/{framework}_routes.py"
    assert code_shown_in(file) in examples().values()
    settings = make_settings()
    topic = settings.client.topic
    sections: dict[str, dict[str, Any]] = {
        "kafka": {
            "bootstrap_servers": settings.kafka.bootstrap_servers,
            "group": settings.kafka.group,
        },
        "redis": {"url": settings.redis.url},
        "http": {"topics": [topic]},
    }
    write_settings(tmp_path, sections).rename(tmp_path / "onceward.toml")
    monkeypatch.chdir(tmp_path)
    example: Any = importlib.import_module(f"tests.producer_client.http.{framework}_routes")
    served = (
        wsgi_served(example.app) if framework == "flask" else django_served(example, is_async=False)
    )
    anna, bert = ({"Authorization": f"Bearer of-{name}"} for name in ("anna", "bert"))
    keyed = {"Idempotency-Key": '"order-7"'}
    with served as shop:
        nobody = shop.post(f"/v1/{topic}", json=1, headers=keyed)
        assert (nobody.status_code, nobody.headers["WWW-Authenticate"]) == (401, "Bearer")
        place = shop.post(f"/v1/{topic}", json=1, headers=keyed | anna).headers["Location"]
        assert shop.get(place, headers=anna).json()["state"] == "PENDING"
        assert shop.get(place, headers=bert).status_code == 404


@pytest.mark.parametrize("module", ["flask_blueprint", "django_urls"])
def test_a_framework_of_threads_loads_no_other_one(module: str) -> None:
    said = (
        f"import sys, producer_client.http.{module}; "
        "print({'starlette', 'uvicorn', 'fastapi', 'jwt'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_page_for_everybody_asks_no_application_who_calls(make_settings: MakeSettings) -> None:
    def refuse() -> Any:
        abort(401)

    app = Flask(__name__)
    with closing(PagesForThreads(make_settings())) as pages:
        app.register_blueprint(blueprint_of(pages, refuse))
        get = app.test_client().get
        assert get("/onceward.js").status_code == 200
        # A read token, here a wrong one, stands for its bearer.
        assert get("/v1/requests/a?token=b").status_code == 404
        assert get("/v1/requests/a").status_code == 401
        assert get("/openapi.json?token=b").status_code == 401


def test_the_metrics_are_in_the_registry_of_the_application(make_settings: MakeSettings) -> None:
    registry = CollectorRegistry()
    app = Flask(__name__)
    app.register_blueprint(flask_blueprint(make_settings(), lambda: Caller("shop"), registry))
    assert app.test_client().get("/onceward.js").status_code == 200
    answered = {"page": "browser-module", "status": "200"}
    assert registry.get_sample_value("onceward_http_answers_total", answered) == 1
    others = CollectorRegistry()
    assert len(django_urls(make_settings(), lambda _: Caller("shop"), others)) > 0
    assert len(routes(AsyncClient(make_settings()), NamedByHeader(), CollectorRegistry())) > 0
    assert others.get_sample_value("onceward_http_streams") == 0


SHOP = """
import atexit, gc, os, signal, sys, threading, time
from flask import Flask
from onceward.http import Caller, flask_blueprint

app = Flask(__name__)
app.register_blueprint(flask_blueprint(None, lambda: Caller("shop")))
ask = app.test_client().get
page = "/v1/requests/" + sys.argv[1]

def fork():
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(20)
"""
FORKED = """
assert ask(page).status_code == 404
ended = fork()
if ended is None:
    # The parent's loop has no thread here, and its connections are still the parent's.
    assert ask(page).status_code == 404
    gc.collect()
    sys.exit()
assert ended == 0
began = time.monotonic()
assert ask(page).status_code == 404
assert time.monotonic() - began < 2
"""
FORKED_IN_BEGINNING = """
from producer_client.http import threads

made, has_begun, may_go_on = threads.client_of, threading.Event(), threading.Event()

def slow(settings):
    has_begun.set()
    may_go_on.wait()
    return made(settings)

threads.client_of = slow
first = threading.Thread(target=ask, args=(page,))
first.start()
has_begun.wait()
ended = fork()
if ended is None:
    threads.client_of = made
    os._exit(ask(page).status_code != 404)
may_go_on.set()
first.join()
sys.exit(ended)
"""
ENDING = """
def forbid():
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    threading.Thread.start = start

posted = app.test_client().post
answer = posted("/v1/" + sys.argv[2], json=1, headers={"Idempotency-Key": '"order-7"'})
assert answer.status_code == 202, answer.data
# Python 3.12 does the same; and it is called before all that was to be called at the exit.
atexit.register(forbid)
"""


@pytest.mark.parametrize("program", [FORKED, FORKED_IN_BEGINNING, ENDING])
@pytest.mark.parametrize("has_outbox", [False, True])
def test_a_process_that_forks_or_ends_is_whole(
    program: str, has_outbox: bool, environment: dict[str, str], sqlite_url: str
) -> None:
    topic = environment["ONCEWARD_CLIENT__TOPIC"]
    given = environment | {"ONCEWARD_HTTP__TOPICS": topic}
    if has_outbox:
        migrate(sqlite_url)
        given |= {"ONCEWARD_OUTBOX__URL": sqlite_url, "ONCEWARD_HTTP__OUTBOX": "true"}
    found = "404" if not has_outbox else "503"
    command = [sys.executable, "-c", SHOP + program.replace("404", found)]
    named = (request_id_of("shop", "order-1"), topic)
    done = subprocess.run(
        [*command, *named], env=given, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
