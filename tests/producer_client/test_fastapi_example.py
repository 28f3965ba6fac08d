"""The README's FastAPI example: what stands there runs, and answers a front-end that polls it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import uvicorn

from feedback.records.envelope import Record, decode_headers
from feedback.status import State
from producer_client import AsyncClient
from tests.documents import code_shown_in, examples
from tests.eventually import eventually
from tests.producer_client import fastapi_example
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings

PAYMENT = {"card": "card-1", "amount": 5}
KEYED = {"Idempotency-Key": "order-7"}
LIMIT_S = 30


class Shop:
    """A server of the example, and the front-end that asks it."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self._address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(fastapi_example.app, log_level="error", ws="none")
        )
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()
        eventually(lambda: self._server.started, timeout_s=LIMIT_S)
        self._listening = listening

    def post(self, path: str, **given: Any) -> requests.Response:
        """Post, and return what was answered."""
        return requests.post(self._address + path, timeout=LIMIT_S, **given)

    def get(self, path: str) -> requests.Response:
        """Get, and return what was answered."""
        return requests.get(self._address + path, timeout=LIMIT_S)

    def close(self) -> None:
        """Let the server end."""
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()


OpenShop = Callable[..., Shop]


@pytest.fixture
def open_shop(
    make_settings: MakeSettings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenShop]:
    """Yield a factory of front-ends of the example, with the arguments of `make_settings`."""
    opened: list[Shop] = []

    def open_shop(**sections: Any) -> Shop:
        settings = make_settings(**sections)
        topic_of_the_test = settings.client.topic

        class Renamed(AsyncClient):
            """Sends to the test's topic what the example sends to payments."""

            async def send(self, value: Any, **given: Any) -> Any:
                assert given["topic"] == "payments"
                return await super().send(value, **given | {"topic": topic_of_the_test})

        monkeypatch.setattr(fastapi_example, "AsyncClient", lambda file: Renamed(settings))
        opened.append(Shop())
        return opened[-1]

    yield open_shop
    for one in opened:
        one.close()


def test_a_page_shows_the_code_that_is_tested() -> None:
    assert code_shown_in("tests/producer_client/fastapi_example.py") in examples().values()


def test_a_post_is_answered_with_an_id_that_a_get_follows_to_the_end(
    open_shop: OpenShop, worker: Worker, records: Callable[[], list[Record]]
) -> None:
    shop = open_shop()
    posted = shop.post("/payments", json=PAYMENT, headers=KEYED)
    assert posted.status_code == 202
    assert posted.headers["Retry-After"] == "1"
    request_id = posted.json()["id"]
    assert posted.headers["Location"] == f"/payments/{request_id}"
    (record,) = records()
    assert (record.key, record.value) == (b"card-1", b'{"card":"card-1","amount":5}')
    assert decode_headers(record).request_id == request_id
    asked = shop.get(posted.headers["Location"])
    assert (asked.status_code, asked.json()["state"]) == (200, "PENDING")
    assert asked.headers["Retry-After"] == "1"
    worker.tell(request_id, State.SUCCEEDED, result='{"receipt":"7"}')
    ended = shop.get(posted.headers["Location"])
    assert ended.json() == {
        "id": request_id, "state": "SUCCEEDED", "code": None, "result": {"receipt": "7"},
    }  # fmt: skip
    assert "Retry-After" not in ended.headers


def test_a_post_that_is_repeated_under_its_key_is_the_same_request(
    open_shop: OpenShop, worker: Worker, records: Callable[[], list[Record]]
) -> None:
    shop = open_shop()
    keyed = {"Idempotency-Key": "order-7"}
    for _ in range(2):
        posted = shop.post("/payments", json=PAYMENT, headers=keyed)
        assert (posted.status_code, posted.json()) == (202, {"id": "order-7"})
    assert {decode_headers(record).request_id for record in records()} == {"order-7"}
    worker.tell("order-7", State.SUCCEEDED)
    sent = len(records())
    assert shop.post("/payments", json=PAYMENT, headers=keyed).status_code == 202
    assert len(records()) == sent
    other = shop.post("/payments", json=PAYMENT | {"amount": 6}, headers=keyed)
    assert other.status_code == 409
    assert shop.get("/payments/order-7").json()["state"] == "SUCCEEDED"


def test_what_cannot_be_a_request_is_a_400_and_what_nobody_knows_a_404(
    open_shop: OpenShop, worker: Worker
) -> None:
    shop = open_shop()
    for key in ("x" * 129, "../other", "a/b", "a?b"):
        keyed = {"Idempotency-Key": key}
        assert shop.post("/payments", json=PAYMENT, headers=keyed).status_code == 422
    assert shop.post("/payments", json={"card": "card-1"}, headers=KEYED).status_code == 422
    assert shop.post("/payments", json=PAYMENT).status_code == 422
    assert shop.get("/payments/nobody").status_code == 404
    assert worker.traces() == []


def test_what_was_not_sent_is_a_503_that_says_when_to_try_again(
    open_shop: OpenShop, worker: Worker, refusing: str
) -> None:
    shop = open_shop(kafka={"bootstrap_servers": refusing}, send_timeout_s=2)
    posted = shop.post("/payments", json=PAYMENT, headers={"Idempotency-Key": "order-7"})
    assert (posted.status_code, posted.headers["Retry-After"]) == (503, "5")
    assert worker.traces() == []


def test_redis_away_is_a_503_as_well(open_shop: OpenShop, refusing: str) -> None:
    shop = open_shop(redis={"url": f"redis://{refusing}/0"})
    assert shop.post("/payments", json=PAYMENT, headers=KEYED).status_code == 503
    assert shop.get("/payments/order-7").status_code == 503


def test_what_may_have_been_sent_is_to_be_posted_again_under_its_key(
    open_shop: OpenShop, mute: str
) -> None:
    # A Redis that hangs may have been told or not: Kafka was not asked yet.
    shop = open_shop(redis={"url": f"redis://{mute}/0", "timeout_s": 0.3})
    posted = shop.post("/payments", json=PAYMENT, headers=KEYED)
    assert (posted.status_code, posted.headers["Retry-After"]) == (503, "5")
    assert posted.headers["Idempotency-Key"] == "order-7"
