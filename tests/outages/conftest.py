"""Stages for outages: a group on the shared servers, except for the one that fails."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.stage import Stage, open_stage
from tests.left_open import left_open
from tests.outages.scene import CLIENT
from tests.stack import Servers

HERE = Path(__file__).parent
LIMIT_S = 300
MakeStage = Callable[..., Stage]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have outages run with what takes minutes, and give them the time that noticing one takes."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(autouse=True)
def sockets_left_open() -> Iterator[None]:
    """Let kafka-python leave the sockets of failed connections to the garbage collector."""
    with left_open():
        yield


@pytest.fixture
def make_stage(servers: Servers, tmp_path: Path) -> Iterator[MakeStage]:
    """Return a factory of stages; `kafka_at`, `redis_at` and `journal_url` are other servers."""
    with ExitStack() as stages:

        def make(*, kafka_at: str = "", redis_at: str = "", **facts: Any) -> Stage:
            folder = tmp_path / uuid.uuid4().hex
            folder.mkdir()
            given: dict[str, Any] = {
                "journal_url": f"sqlite:///{folder}/journal.db",
                "client": CLIENT,
            }
            where = Servers(kafka=kafka_at or servers.kafka, redis=redis_at or servers.redis)
            return stages.enter_context(open_stage(servers=where, folder=folder, **given | facts))

        yield make
