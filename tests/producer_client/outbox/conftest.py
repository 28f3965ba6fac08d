"""An outbox in an empty database, and what lies in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, select

from feedback.settings.settings import Settings
from producer_client.outbox import migrate
from producer_client.outbox.relay import Relay
from producer_client.outbox.tables import row
from tests.kit.databases import migrated
from tests.producer_client.conftest import MakeSettings

Rows = Callable[[], list[dict[str, Any]]]


@pytest.fixture(params=["sqlite", "postgres"])
def outbox_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database with an outbox: the test runs once on each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    migrated(url, migrate)
    return url


@pytest.fixture
def settings(make_settings: MakeSettings, outbox_url: str) -> Settings:
    """Return settings with this outbox, and a short lease."""
    return make_settings(outbox={"url": outbox_url, "lease_s": 2, "unknown_topic_s": 1})


@pytest.fixture
def engine(outbox_url: str) -> Iterator[Engine]:
    """Yield the user's own engine: SQLAlchemy as it comes."""
    made = create_engine(outbox_url)
    yield made
    made.dispose()


@pytest.fixture
def rows(engine: Engine) -> Rows:
    """Return a function that reads all rows, in their order."""

    def read() -> list[dict[str, Any]]:
        with engine.connect() as connection:
            return [
                dict(one) for one in connection.execute(select(row).order_by(row.c.id)).mappings()
            ]

    return read


@pytest.fixture
def user(engine: Engine) -> Iterator[Connection]:
    """Yield a connection of the user's."""
    with engine.connect() as connection:
        yield connection


@contextmanager
def relaying(settings: Settings) -> Iterator[Relay]:
    """Yield a relay that works until the block is left."""
    one = Relay(settings)
    try:
        one.start()
        yield one
    finally:
        one.close()
