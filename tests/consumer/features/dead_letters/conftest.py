"""Stages whose handlers fail, and the boxes with their dead letters."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.dead_letters.box import Box
from tests.consumer.stage import HANDLERS, open_stage
from tests.stack import Servers

FAILING = "tests.consumer.features.dead_letters.failing_handlers"

MakeBox = Callable[..., Box]


@contextmanager
def open_box(servers: Servers, folder: Path, *handlers: str, **facts: Any) -> Iterator[Box]:
    """Yield a box on an SQLite journal unless it is told another; see `Stage` for the facts."""
    worker = {"handlers": [HANDLERS, FAILING], **facts.pop("worker", {})}
    given = {"journal_url": f"sqlite:///{folder}/journal.db", "servers": servers, **facts}
    with open_stage(folder=folder, handlers=handlers, worker=worker, **given) as stage:
        yield Box(stage, servers.kafka)


@pytest.fixture
def make_box(servers: Servers, tmp_path: Path) -> Iterator[MakeBox]:
    """Return a factory of stages with a box."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Box:
            folder = tmp_path / f"box-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            where = facts.pop("servers", servers)
            return stages.enter_context(open_box(where, folder, *handlers, **facts))

        yield make
