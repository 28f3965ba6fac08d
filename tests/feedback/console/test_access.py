"""Before a start all servers are asked at once: those that hang hold up a start only once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from feedback.console import access
from feedback.errors import NotAvailable
from feedback.rights import looking
from feedback.rights.needed import Role
from feedback.settings.settings import load

# Nobody passes before both are asked.
WITHIN_S = 10.0


def test_kafka_and_redis_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def ask(_: object) -> None:
        both.wait(WITHIN_S)
        raise NotAvailable("it hangs")

    monkeypatch.setattr(access, "_ASKS", (ask, ask))
    access.require_access(load(None))
    assert not both.broken


def test_the_rights_of_all_servers_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def ask() -> Any:
        both.wait(WITHIN_S)
        raise NotAvailable("it hangs")

    monkeypatch.setattr(looking, "questions", lambda *_, **__: [("redis", ask), ("outbox", ask)])
    looking.require_rights(Role.CLIENT, load(None), [])
    assert not both.broken
