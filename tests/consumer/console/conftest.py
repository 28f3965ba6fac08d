"""Consoles of this process on the real servers."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher

from consumer.console import people as people_module
from consumer.console.app import app
from feedback.settings.settings import Settings, load
from tests.consumer.console.people import lines
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.planting import plant
from tests.consumer.features.dead_letters.conftest import make_box as make_box
from tests.kit.databases import migrated
from tests.kit.settings import write_settings
from tests.producer_client.http.conftest import AppServer
from tests.stack import Servers


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


PlantLetters = Callable[..., Planted]


@pytest.fixture
def plant_letters(no_given_servers: None, servers: Servers, tmp_path: Path) -> PlantLetters:
    """Return a function that plants letters of a group without a worker, whose console has people.

    Its arguments are those of `plant`.
    """

    def planted(letters: int, *, apart_ms: int = 0) -> Planted:
        url = f"sqlite:///{tmp_path}/journal.db"
        migrated(url)
        group, topic = f"group-{uuid.uuid4().hex}", f"topic-{uuid.uuid4().hex}"
        users = tmp_path / "users"
        users.write_text(lines())
        sections = {
            "kafka": {"bootstrap_servers": servers.kafka, "group": group},
            "redis": {"url": servers.redis},
            "journal": {"url": url},
            "console": {"users_file": str(users)},
        }
        config = write_settings(tmp_path, sections)
        plant(
            kafka=servers.kafka,
            journal_url=url,
            group=group,
            topic=topic,
            letters=letters,
            apart_ms=apart_ms,
        )
        return Planted(load(config), config, topic)

    return planted
