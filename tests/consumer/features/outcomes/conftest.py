"""Stages whose handlers name an outcome topic."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.outcomes.outlet import Outlet
from tests.consumer.stage import HANDLERS, open_stage
from tests.stack import Servers

OUTCOMES = "tests.consumer.features.outcomes.outcome_handlers"

MakeOutlet = Callable[..., Outlet]


@pytest.fixture
def make_outlet(servers: Servers, tmp_path: Path) -> Iterator[MakeOutlet]:
    """Return a factory of stages with an outlet, on an SQLite journal unless told another."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Outlet:
            folder = tmp_path / f"outlet-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            worker = {"handlers": [HANDLERS, OUTCOMES], **facts.pop("worker", {})}
            given: dict[str, Any] = {
                "servers": servers,
                "journal_url": f"sqlite:///{folder}/journal.db",
                "folder": folder,
                "handlers": handlers or ("telling",),
                "worker": worker,
            }
            given |= facts
            stage = stages.enter_context(open_stage(**given))
            return Outlet(stage, given["servers"].kafka)

        yield make
