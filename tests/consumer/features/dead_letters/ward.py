"""A box whose letters are given to handlers, and what these get to see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient
from sqlalchemy.engine import RowMapping

from feedback.status import State
from tests.consumer.features.dead_letters.box import Box
from tests.consumer.running import RunningWorker, command
from tests.eventually import eventually

LETTERS = "tests.consumer.features.dead_letters.letter_handlers"
LIMIT_S = 60.0


class Ward:
    """Workers with handlers of dead letters.

    Args:
        box: a stage, and the letters of its topics.
        folder: for the file of what was seen.
        of: from the name of a handler of letters to the handler whose failures it is given.
    """

    def __init__(self, box: Box, folder: Path, **of: str) -> None:
        self.box = box
        self.stage = box.stage
        self._seen = folder / "letters.jsonl"
        sources = {name: self.stage.topics.get(handler, handler) for name, handler in of.items()}
        self._variables = {
            "TEST_LETTERS": json.dumps(sources),
            "TEST_LETTERS_SEEN": str(self._seen),
        }

    def start(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker with these handlers."""
        worker = self.launch(**changes)
        worker.told("worker.started")
        return worker

    def launch(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker with these handlers and wait for nothing."""
        return self.stage.start_as(self._variables, config=self.stage.config(**changes))

    def check(self, **changes: Mapping[str, Any]) -> str:
        """Return what `onceward-worker check` says of Kafka."""
        config = self.stage.config(**changes)
        variables = {**self.stage.variables(), **self._variables}
        said = command("check", "--json", "--config", str(config), **variables)
        found = {one["what"]: one["detail"] for one in map(json.loads, said.stdout.splitlines())}
        return str(found["kafka"])

    def seen(self, request_id: str | None = None) -> list[dict[str, Any]]:
        """Return the runs of these handlers, in order: for one request that failed, or for all."""
        if not self._seen.exists():
            return []
        lines = [json.loads(line) for line in self._seen.read_text().splitlines()]
        return [line for line in lines if request_id in (None, line["request_id"])]

    def row(self, letter_id: str, state: State) -> RowMapping:
        """Return the row of a letter that is handled, once it is in this state."""
        found: list[RowMapping] = []

        def is_there() -> bool:
            row = self.stage.row(letter_id)
            found[:] = [] if row is None else [row]
            return row is not None and row["state"] == state

        eventually(is_there, timeout_s=LIMIT_S, what=f"{letter_id} {state}: {found}")
        return found[0]

    def make(self, topic: str, partitions: int = 1) -> None:
        """Make a topic as a person does."""
        with KafkaAdminClient(bootstrap_servers=self.box.kafka) as admin:
            admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
            admin.wait_for_topics([topic])

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 when there is none."""
        with KafkaAdminClient(bootstrap_servers=self.box.kafka) as admin:
            (found,) = admin.describe_topics([topic])
        return len(found["partitions"])

    def topics(self) -> set[str]:
        """Return all topics."""
        with KafkaAdminClient(bootstrap_servers=self.box.kafka) as admin:
            return set(admin.list_topics())
