"""Stages with a bank that goes down."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.pausing.scene import CALLING, Scene
from tests.consumer.stage import HANDLERS, open_stage
from tests.stack import Servers

MakeScene = Callable[..., Scene]


@pytest.fixture
def make_scene(servers: Servers, tmp_path: Path) -> Iterator[MakeScene]:
    """Return a factory of scenes, on an SQLite journal unless it is told another."""
    with ExitStack() as stages:

        def make(*handlers: str, worker: dict[str, Any] | None = None, **facts: Any) -> Scene:
            folder = tmp_path / f"scene-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            given: dict[str, Any] = {
                "servers": servers,
                "journal_url": f"sqlite:///{folder}/journal.db",
                "folder": folder,
                "handlers": handlers,
                "worker": {"handlers": [HANDLERS, CALLING], **(worker or {})},
            }
            return Scene(stages.enter_context(open_stage(**given | facts)), folder)

        yield make
