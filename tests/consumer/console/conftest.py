"""Consoles of this process on the real servers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from argon2 import PasswordHasher

from consumer.console import people as people_module
from consumer.console.app import app
from feedback.settings.settings import Settings
from tests.consumer.features.dead_letters.conftest import make_box as make_box
from tests.producer_client.http.conftest import AppServer


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a password cost a millisecond."""
    monkeypatch.setattr(people_module, "HASHER", PasswordHasher(1, 8, 1))


Open = Callable[[Settings], httpx.Client]


@contextmanager
def console_of(settings: Settings) -> Iterator[httpx.Client]:
    """Yield a client of a console in a thread."""
    server = AppServer(app(settings), lifespan="on")
    try:
        yield server.http
    finally:
        server.close()


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens a console."""
    with ExitStack() as consoles:
        yield lambda settings: consoles.enter_context(console_of(settings))


@pytest.fixture
def people(opened: Open) -> Iterator[ExitStack]:
    """Keep browsers of people until the end, before that of their console."""
    with ExitStack() as browsers:
        yield browsers
