"""Stages: a group of its own on the real servers, for one test; and a journal for a module."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.stage import Stage, open_stage
from tests.stack import Servers
from tests.stack.postgres import fresh_database

MakeStage = Callable[..., Stage]


@pytest.fixture
def make_stage(servers: Servers, tmp_path: Path) -> Iterator[MakeStage]:
    """Return a factory of stages on an SQLite journal, unless `journal_url` names another."""
    with ExitStack() as stages:

        def make(**facts: Any) -> Stage:
            folder = tmp_path / f"stage-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            given: dict[str, Any] = {"servers": servers}
            given["journal_url"] = f"sqlite:///{folder}/journal.db"
            return stages.enter_context(open_stage(folder=folder, **given | facts))

        yield make


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def module_journal_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the URL of an empty journal for a worker to which all tests of a module send."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('journal')}/journal.db"
        return
    servers: Servers = request.getfixturevalue("servers")
    # Not the one that each test empties: the worker is still there.
    with fresh_database(servers.postgres, f"test_{uuid.uuid4().hex}") as made:
        yield made
