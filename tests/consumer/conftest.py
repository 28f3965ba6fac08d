"""Stages: a group of its own on the real servers, for one test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.stage import Stage, open_stage
from tests.stack import Servers

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
