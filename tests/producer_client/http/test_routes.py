"""The front door's routes in a FastAPI application: the how-to page's example runs."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from feedback.settings.settings import Settings, load
from producer_client import AsyncClient
from producer_client.http.starlette_app import routes
from tests.documents import code_shown_in, examples
from tests.kit.settings import write_settings
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.http.conftest import AppServer, NamedByHeader

FILE = "tests/producer_client/http/fastapi_routes.py"


def test_a_page_shows_the_code_that_is_tested() -> None:
    assert code_shown_in(FILE) in examples().values()


def test_an_application_that_exists_has_the_routes_beside_its_own(
    make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = _sections(make_settings())
    (topic,) = sections["http"]["topics"]
    write_settings(tmp_path, sections).rename(tmp_path / "onceward.toml")
    monkeypatch.chdir(tmp_path)
    example = importlib.import_module("tests.producer_client.http.fastapi_routes")
    anna, bert = ({"Authorization": f"Bearer of-{name}"} for name in ("anna", "bert"))
    with closing(AppServer(example.app)) as server:
        shop = server.http
        keyed = {"Idempotency-Key": '"order-7"'}
        nobody = shop.post(f"/v1/{topic}", json=1, headers=keyed)
        assert (nobody.status_code, nobody.headers["WWW-Authenticate"]) == (401, "Bearer")
        place = shop.post(f"/v1/{topic}", json=1, headers=keyed | anna).headers["Location"]
        assert shop.get(place, headers=anna).json()["state"] == "PENDING"
        assert shop.get(place, headers=bert).status_code == 404
        assert shop.get("/docs").status_code == 200


def test_below_a_prefix_each_address_has_it(make_settings: MakeSettings) -> None:
    sections = _sections(make_settings())
    (topic,) = sections["http"]["topics"]
    client = AsyncClient(load(None, **sections))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    pages = Mount("/pay", routes=routes(client, NamedByHeader()))
    with closing(AppServer(Starlette(routes=[pages], lifespan=lifespan))) as server:
        keyed = {"Idempotency-Key": '"order-7"'}
        accepted = server.http.post(f"/pay/v1/{topic}", json=1, headers=keyed)
        place = f"/pay/v1/requests/{accepted.json()['request_id']}"
        assert accepted.headers["Location"] == place
        assert server.http.get(place).json()["links"]["self"] == place
        with server.http.stream("GET", accepted.json()["links"]["events"]) as stream:
            data = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(data.removeprefix("data: "))["links"]["events"] == f"{place}/events"
        described = server.http.get("/pay/openapi.json").json()
        assert described["servers"] == [{"url": "/pay"}]


def _sections(settings: Settings) -> dict[str, dict[str, Any]]:
    kafka = settings.kafka
    return {
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "group": kafka.group},
        "redis": {"url": settings.redis.url},
        "http": {"topics": [settings.client.topic], "heartbeat_s": 0.2},
    }
