"""Front doors of this process on the real servers: a group and topics of their own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from kafka.admin import KafkaAdminClient, NewTopic
from selenium import webdriver

from feedback.records.envelope import Record
from feedback.redis.server import connect
from feedback.settings.settings import Settings, load
from feedback.web.hosts import listen
from producer_client.http.callers import ANONYMOUS, Caller
from producer_client.http.front_door import FrontDoor, client_of
from producer_client.http.metrics import DoorMetrics
from producer_client.http.serve import BoundedHttp
from producer_client.http.starlette_app import app
from tests.eventually import eventually
from tests.kit.chromium import chromium
from tests.kit.no_authorities import NO_AUTHORITIES
from tests.producer_client.acting import Worker
from tests.producer_client.records import records_of
from tests.stack import Servers
from tests.stack.authority import Certificate

LIMIT_S = 30


class NamedByHeader:
    """Takes each caller's word for its name."""

    def caller(self, headers: Any, address: str) -> Caller:
        """Return the caller that the header names."""
        name = headers.get("x-name")
        return Caller(name) if name else ANONYMOUS


class AppServer:
    """An application in a thread, and a client of it."""

    def __init__(
        self, served_app: Any, *, lifespan: Any = "auto", certificate: Certificate | None = None
    ) -> None:
        config = uvicorn.Config(
            served_app,
            http=BoundedHttp,
            ws="none",
            log_config=None,
            lifespan=lifespan,
            ssl_certfile=None if certificate is None else certificate.cert,
            ssl_keyfile=None if certificate is None else certificate.key,
        )
        self._server = uvicorn.Server(config)
        listening = listen("127.0.0.1", 0, setting="port")
        self.address = listening.getsockname()[:2]
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()
        eventually(lambda: self._server.started, timeout_s=LIMIT_S)
        scheme = "http" if certificate is None else "https"
        self.http = httpx.Client(
            base_url=f"{scheme}://127.0.0.1:{self.address[1]}",
            timeout=LIMIT_S,
            verify=NO_AUTHORITIES,
        )

    def stop(self) -> None:
        """Ask it to end."""
        self.http.close()
        self._server.should_exit = True

    def close(self) -> None:
        """Return when it has ended."""
        self.stop()
        self._thread.join()


class Served:
    """A front door in a thread, a client of it, and the worker's part of its group."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topic = next(iter(settings.http.topics))
        redis = connect(settings.redis)
        self.worker = Worker(redis, settings.kafka.group, settings.redis)
        self.door = FrontDoor(client_of(settings))
        metrics = DoorMetrics()
        BoundedHttp.head_s = settings.http.body_timeout_s
        self._server = AppServer(app(self.door, NamedByHeader(), metrics))
        self.address = self._server.address
        self.http = self._server.http

    def post(self, key: str, *, body: bytes = b'{"amount":5}', **headers: str) -> httpx.Response:
        """Submit to the first topic; underscores in names of headers are dashes."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"Content-Type": "application/json", "Idempotency-Key": f'"{key}"', **given}
        return self.http.post(f"/v1/{self.topic}", content=body, headers=named)

    def records(self) -> list[Record]:
        """Return all records of the first topic."""
        return records_of(self.settings.kafka.bootstrap_servers, self.topic)

    def close(self) -> None:
        """Let the server end."""
        self._server.stop()
        self.door.drain()
        self._server.close()
        self.worker.store.redis.close()


@contextmanager
def served(servers: Servers, **sections: Any) -> Iterator[Served]:
    """Yield a front door with these sections of settings over those of the servers."""
    kafka = {"bootstrap_servers": servers.kafka, "group": f"group-{uuid.uuid4().hex}"}
    http = {"topics": {name_of_topic(): {}}, **sections.pop("http", {})}
    base = {
        "kafka": kafka,
        "redis": {"url": servers.redis},
        "client": {},
        "http": http,
        "outbox": {},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in Servers("kafka", "redis", "postgresql:").settings():
            patch.delenv(name, raising=False)
        settings = load(None, **{name: base[name] | sections.get(name, {}) for name in base})
    one = Served(settings)
    try:
        yield one
    finally:
        one.close()


def name_of_topic() -> str:
    """Return the name of a topic nobody else uses."""
    return f"topic-{uuid.uuid4().hex}"


def create_topics(servers: Servers, *names: str) -> None:
    """Create topics of one partition."""
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
        admin.wait_for_topics(list(names))


@pytest.fixture(scope="module")
def front(servers: Servers) -> Iterator[Served]:
    """Yield the front door of a module, with a fast look at statuses."""
    topics = {name_of_topic(): {}, name_of_topic(): {"key": "optional"}}
    create_topics(servers, *topics)
    with served(servers, http={"topics": topics}, client={"poll_interval_s": 0.2}) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """Yield a headless Chromium."""
    with chromium() as one:
        yield one
