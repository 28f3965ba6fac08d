"""Scenes: a group on the real servers whose requests fail until they are repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.redrive.scene import Scene
from tests.consumer.stage import open_stage
from tests.stack import Servers

HANDLERS = "tests.consumer.redrive.redriven_handlers"

MakeScene = Callable[..., Scene]


@pytest.fixture
def make_scene(servers: Servers, tmp_path: Path) -> Iterator[MakeScene]:
    """Return a factory of scenes, on an SQLite journal unless it is told another."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Scene:
            folder = tmp_path / f"scene-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            given: dict[str, Any] = {
                "servers": servers,
                "journal_url": f"sqlite:///{folder}/journal.db",
                "folder": folder,
                "handlers": handlers or ("repairable",),
                "worker": {"handlers": [HANDLERS]},
            }
            stage = stages.enter_context(open_stage(**given | facts))
            return Scene(stage, servers.kafka)

        yield make
