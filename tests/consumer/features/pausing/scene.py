"""A stage whose handlers call a bank that a test takes down and brings back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.consumer.features.pausing.calling_handlers import DOWN
from tests.consumer.running import RunningWorker, command
from tests.consumer.stage import Stage
from tests.eventually import eventually

CALLING = "tests.consumer.features.pausing.calling_handlers"
# What a worker takes to start, to see a pause and to run a little.
LIMIT_S = 60.0


class Scene:
    """One stage with its bank.

    Args:
        stage: with `CALLING` among its handlers.
        folder: for the file that says that the bank is down.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self._down = folder / "bank-is-down"
        self.stops: dict[str, dict[str, str]] = {}

    def start(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker and wait until it can run."""
        worker = self.stage.start_as({DOWN: str(self._down)}, config=self.stage.config(**changes))
        worker.told("worker.started")
        return worker

    def goes_down(self) -> None:
        """Let the bank refuse every connection."""
        self._down.touch()

    def is_back(self) -> None:
        """Let the bank answer."""
        self._down.unlink()

    def send(self, handler: str = "calling", count: int = 1, **body: Any) -> list[str]:
        """Send requests; return their ids."""
        topic = self.stage.topics[handler]
        return [self.stage.client.send(body, topic=topic).request_id for _ in range(count)]

    def rows(self, handler: str = "calling") -> dict[str, str]:
        """Return the state of each request of a handler, as the journal has it."""
        found = self.stage.execute(
            "SELECT request_id, state FROM onceward_request "
            f"WHERE topic = '{self.stage.topics[handler]}'"
        )
        return {str(name): str(state) for name, state in found}

    def count(self, handler: str, state: str) -> int:
        """Return how many requests of a handler are in a state."""
        return list(self.rows(handler).values()).count(state)

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `onceward-worker` with this stage's settings; return its exit code and output."""
        done = command(*arguments, "--config", str(self.stage.config()))
        return done.returncode, done.stdout

    def paused(self) -> list[dict[str, Any]]:
        """Return what `onceward-worker paused --json` prints."""
        code, printed = self.command("paused", "--json")
        assert code == 0
        return [json.loads(line) for line in printed.splitlines()]

    def seen_by(self, worker: RunningWorker, event: str, handler: str, *, times: int = 1) -> None:
        """Wait until a worker has logged an event of a handler's topic so often."""
        topic = self.stage.topics[handler]

        def told() -> bool:
            return [one["topic"] for one in worker.events(event)].count(topic) >= times

        eventually(told, timeout_s=LIMIT_S, what=f"{event} of {worker.pid}\n{worker.tail}")
