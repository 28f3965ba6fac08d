"""Front doors with a PostgreSQL outbox, while doors are killed and the database is locked or away.

Nobody is told of a request that it never runs when it does, and none runs twice.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from onceward.servers.ports import free_port
from producer_client.http.ids import request_id_of
from producer_client.outbox import migrate
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.kit.settings import environment
from tests.producer_client.resenders import ClientProgram
from tests.stack import Servers
from tests.stack.postgres import Postgres, dsn
from tests.stack.restartable import Restartable, restartable

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

LIMIT_S = 60
ORDERS = 160
CLIENTS = 8
# Longer than a send waits for a row.
LOCKED_S = 2.0
ROUNDS = 2
AGAIN_S = 0.2
LOAD_S = 20.0


class Site:
    """Two front doors with one outbox, a relay and a worker. One of the doors has no Kafka."""

    def __init__(self, stage: Stage, folder: Path, database: Restartable, nowhere: str) -> None:
        self.stage = stage
        self._folder, self._database = folder, database
        cut = {"kafka": {"bootstrap_servers": nowhere}}
        self._kafkas: dict[str, dict[str, Any]] = {"whole": {}, "cut": cut}
        self._ports = {name: free_port() for name in self._kafkas}
        self._starts = count()
        self.programs = {name: self._door(name) for name in self._kafkas}
        self.programs["relay"] = self._program("relay", "relay", str(self._config("whole")))
        self.url_of = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        self.topic = stage.topics["work"]

    def _config(self, name: str) -> Path:
        http = {"topics": [*self.stage.topics.values()], "port": self._ports[name], "outbox": True}
        return self.stage.config(http=http, **self._kafkas[name])

    def _program(self, name: str, command: str, config: str) -> ClientProgram:
        argv = (command, "--config", config)
        return ClientProgram(environment(), self._folder, name, argv=argv)

    def _door(self, name: str) -> ClientProgram:
        log = f"{name}-{next(self._starts)}"
        door = self._program(log, "serve", str(self._config(name)))
        door.told("http.started")
        return door

    @contextmanager
    def door_down(self) -> Iterator[None]:
        """Kill the door without Kafka: rows were on their way."""
        self.programs["cut"].kill()
        yield
        self.programs["cut"] = self._door("cut")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the outbox's table."""
        with psycopg.connect(dsn(self._database.address)) as connection:
            connection.execute("LOCK TABLE onceward_outbox IN ACCESS EXCLUSIVE MODE")
            yield

    def faults(self) -> tuple[Callable[[], AbstractContextManager[None]], ...]:
        """All that may happen."""
        return self.door_down, self.locked, self._database.down

    def close(self) -> None:
        """Kill what is left."""
        for one in self.programs.values():
            one.kill()


@pytest.fixture
def site(servers: Servers, sqlite_url: str, tmp_path: Path, refusing: str) -> Iterator[Site]:
    """Yield the site, with a database of its own."""
    with ExitStack() as ends:
        database = ends.enter_context(restartable(Postgres))
        migrate(database.address)
        stage = ends.enter_context(
            open_stage(
                servers=servers,
                journal_url=sqlite_url,
                folder=tmp_path,
                outbox={"url": database.address},
                client={"send_timeout_s": 3},
            )
        )
        stage.start()
        one = Site(stage, tmp_path, database, refusing)
        ends.callback(one.close)
        yield one


class Buyer:
    """Presses until an order is accepted, under a new key where it was told that it never runs."""

    def __init__(self, site: Site, words: Counter[str], is_over: threading.Event) -> None:
        self._site, self._words, self._is_over = site, words, is_over

    def buy(self, order: str) -> str:
        """Return the key under which it was accepted; each other one was told to be nowhere."""
        draw = random.Random(order)
        with httpx.Client(timeout=LIMIT_S) as http:
            for tried in count():
                key = f"{order}.{tried}"
                if self._word(http, draw, key, order) == "accepted":
                    return key
        raise AssertionError

    def _word(self, http: httpx.Client, draw: random.Random, key: str, order: str) -> str:
        while True:
            url = f"{draw.choice(self._site.url_of)}/v1/{self._site.topic}"
            try:
                answer = http.post(
                    url, json={"answer": order}, headers={"Idempotency-Key": f'"{key}"'}
                )
            except httpx.TransportError:
                self._words["nothing"] += 1
                self._is_over.wait(AGAIN_S)
                continue
            if answer.status_code == 202:
                self._words["accepted"] += 1
                return "accepted"
            kind = str(answer.json()["type"]).rpartition(":")[2]
            self._words[kind] += 1
            assert answer.status_code == 503, answer.text
            if kind == "not-accepted":
                return kind


def test_no_order_runs_twice_and_none_that_was_said_never_to_run(site: Site) -> None:
    words: Counter[str] = Counter()
    orders = [f"order-{number}" for number in range(ORDERS)]
    is_over = threading.Event()
    buyer = Buyer(site, words, is_over)

    def buy(order: str) -> str:
        # The load lasts as long as the faults do.
        is_over.wait(random.Random(order).uniform(0.0, LOAD_S))
        return buyer.buy(order)

    with ThreadPoolExecutor(CLIENTS * 4) as threads:
        bought = [threads.submit(buy, order) for order in orders]
        for fault in site.faults() * ROUNDS:
            with fault():
                is_over.wait(LOCKED_S)
        is_over.set()
        keys = [one.result() for one in bought]
    accepted = {request_id_of("", key) for key in keys}

    def ended() -> bool:
        return accepted <= {run["request_id"] for run in site.stage.runs()}

    eventually(ended, timeout_s=LIMIT_S * 2)
    runs = Counter(run["request_id"] for run in site.stage.runs())
    assert set(runs) == accepted, words
    assert set(runs.values()) == {1}
    assert words["unknown"] > 0
