"""Scenes: a group of its own on the real servers, for one test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.waits.registry.scene import Scene
from tests.kit.databases import migrated
from tests.left_open import left_open
from tests.stack import Servers

MakeScene = Callable[..., Scene]


@pytest.fixture
def make_scene(servers: Servers, tmp_path: Path) -> Iterator[MakeScene]:
    """Return a factory of scenes on an SQLite database, unless `database_url` names another."""
    with left_open(), ExitStack() as scenes:

        def make(**facts: Any) -> Scene:
            given: dict[str, Any] = {
                "servers": servers,
                "database_url": f"sqlite:///{tmp_path}/registry.db",
                "folder": tmp_path,
            }
            given |= facts
            migrated(given["database_url"])
            scene = Scene(**given)
            scenes.callback(scene.close)
            return scene

        yield make


@pytest.fixture
def scene(make_scene: MakeScene, journal_url: str) -> Scene:
    """Return a scene; the test runs once on each kind of database."""
    return make_scene(database_url=journal_url)
