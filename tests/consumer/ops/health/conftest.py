"""Watched workers: a stage's worker with a port."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.ops.health.watched_worker import WatchedWorker
from tests.consumer.stage import Stage

Watch = Callable[..., WatchedWorker]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Return a factory `watch(stage, variables=…, **settings)`; the stage ends its workers."""

    def start(stage: Stage, **given: Any) -> WatchedWorker:
        return WatchedWorker(stage, folder=tmp_path, **given)

    return start
