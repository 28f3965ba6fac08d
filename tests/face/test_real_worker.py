"""The worker of `pytest --onceward-real`, as its bench sees it."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from onceward.servers.ports import HOST, free_port
from onceward.testing.real.worker import local_page
from tests.kit.serving import serving


def test_it_is_not_asked_through_the_networks_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://{HOST}:{free_port()}")
    server = HTTPServer((HOST, 0), BaseHTTPRequestHandler)
    with serving(server):
        page = local_page(f"http://{HOST}:{server.server_port}/ready")
    assert page.status_code == HTTPStatus.NOT_IMPLEMENTED
