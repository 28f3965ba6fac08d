"""Stages whose handlers name an outcome topic."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.consumer.features.outcomes.outlet import Outlet
from tests.consumer.stage import HANDLERS, open_stage
from tests.stack import Servers

OUTCOMES = "tests.consumer.features.outcomes.outcome_handlers"

MakeOutlet = Callable[..., Outlet]


@contextmanager
def open_outlet(servers: Servers, folder: Path, *handlers: str, **facts: Any) -> Iterator[Outlet]:
    """Yield an outlet on an SQLite journal unless told another; see `Stage` for the facts."""
    worker = {"handlers": [HANDLERS, OUTCOMES], **facts.pop("worker", {})}
    given = {"journal_url": f"sqlite:///{folder}/journal.db", "servers": servers, **facts}
    names = handlers or ("telling",)
    with open_stage(folder=folder, handlers=names, worker=worker, **given) as stage:
        yield Outlet(stage, servers.kafka)


@pytest.fixture
def make_outlet(servers: Servers, tmp_path: Path) -> Iterator[MakeOutlet]:
    """Return a factory of stages with an outlet."""
    with ExitStack() as stages:

        def make(*handlers: str, **facts: Any) -> Outlet:
            folder = tmp_path / f"outlet-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            where = facts.pop("servers", servers)
            return stages.enter_context(open_outlet(where, folder, *handlers, **facts))

        yield make
