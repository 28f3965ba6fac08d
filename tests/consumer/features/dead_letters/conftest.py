"""Stages whose handlers fail, and the boxes with their dead letters."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.dead_letters.box import Box
from tests.consumer.stage import HANDLERS, open_stage
from tests.stack import Servers

FAILING = "tests.consumer.features.dead_letters.failing_handlers"

MakeBox = Callable[..., Box]


@pytest.fixture
def make_box(servers: Servers, tmp_path: Path) -> Iterator[MakeBox]:
    """Return a factory of stages with a box, on an SQLite journal unless it is told another."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Box:
            folder = tmp_path / f"box-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            worker = {"handlers": [HANDLERS, FAILING], **facts.pop("worker", {})}
            given: dict[str, Any] = {
                "servers": servers,
                "journal_url": f"sqlite:///{folder}/journal.db",
                "folder": folder,
                "handlers": handlers,
                "worker": worker,
            }
            given |= facts
            stage = stages.enter_context(open_stage(**given))
            return Box(stage, given["servers"].kafka)

        yield make
