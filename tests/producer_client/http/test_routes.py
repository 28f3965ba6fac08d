"""The front door's routes in a FastAPI application: the how-to page's example runs."""

from __future__ import annotations

import importlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.documents import code_shown_in, examples
from tests.kit.settings import write_settings
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.http.conftest import AppServer

FILE = "tests/producer_client/http/fastapi_routes.py"


def test_a_page_shows_the_code_that_is_tested() -> None:
    assert code_shown_in(FILE) in examples().values()


def test_an_application_that_exists_has_the_routes_beside_its_own(
    make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings()
    topic = settings.client.topic
    servers: dict[str, dict[str, Any]] = {
        "kafka": {
            "bootstrap_servers": settings.kafka.bootstrap_servers,
            "group": settings.kafka.group,
        },
        "redis": {"url": settings.redis.url},
        "http": {"topics": [topic]},
    }
    write_settings(tmp_path, servers).rename(tmp_path / "onceward.toml")
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
