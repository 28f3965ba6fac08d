"""A real worker with a port, and with a test that plays its service manager."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from onceward.servers.ports import HOST, free_port
from tests.consumer.running import RunningWorker
from tests.consumer.stage import HANDLERS, Stage
from tests.eventually import eventually
from tests.kit.settings import merged

PLANT = "tests.consumer.ops.health.planted_stall"
PAGE_LIMIT_S = 60.0
# Far more than a loaded machine needs between two ticks, and soon over for a test.
LIMIT_S = 4.0
QUICK: dict[str, dict[str, Any]] = {
    "worker": {"stall_after_s": LIMIT_S, "handlers": [HANDLERS, PLANT]},
    "journal": {"timeout_s": 1.0},
}


class WatchedWorker:
    """A worker of a stage, asked over HTTP.

    Args:
        folder: for its log.
        variables: its environment beside the stage's.
        settings: changes to the stage's.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        **settings: Mapping[str, Any],
    ) -> None:
        self.port = free_port()
        sections = {"worker": {"http_port": self.port}}
        self.process = RunningWorker(
            stage.config(**merged(sections, QUICK, settings)),
            log=folder / f"watched-{self.port}.log",
            settings={**stage.variables(), **(variables or {})},
        )
        stage.workers.append(self.process)  # which ends it with the test

    def get(self, page: str) -> requests.Response:
        """Return a page as it is now."""
        return requests.get(f"http://{HOST}:{self.port}/{page}", timeout=PAGE_LIMIT_S)

    def says(self, page: str, status: int) -> dict[str, Any]:
        """Return what a page says, once it answers with this status."""

        def answer() -> dict[str, Any] | None:
            try:
                found = self.get(page)
            except requests.ConnectionError:
                return None
            said: dict[str, Any] = found.json()
            return said if found.status_code == status else None

        said = eventually(answer, timeout_s=PAGE_LIMIT_S, what=f"/{page} {status}")
        assert said is not None
        return said

    def lacks(self, part: str) -> dict[str, Any]:
        """Return what /ready says, once it misses this part."""

        def answer() -> dict[str, Any] | None:
            said: dict[str, Any] = self.get("ready").json()
            return said if part in said["missing"] else None

        found = eventually(answer, timeout_s=PAGE_LIMIT_S, what=f"/ready without {part}")
        assert found is not None
        return found
