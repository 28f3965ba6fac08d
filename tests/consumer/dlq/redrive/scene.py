"""A stage whose requests fail, and the command that sends their letters back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.engine import RowMapping

from consumer.journal.tables import action, redrive
from feedback.kafka.scan import KafkaScan
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests import preloaded
from tests.consumer.features.dead_letters.box import Box, header
from tests.consumer.stage import Stage
from tests.kit.settings import environment

COMMAND = (sys.executable, "-m", "consumer.dlq")
LIMIT_S = 90.0


class StartedDlq:
    """`onceward-dlq` that runs on.

    Args:
        config: its settings.
        arguments: before them.
        stdin: a descriptor of what answers its questions; nobody does without.
    """

    def __init__(self, config: Path, *arguments: str, stdin: int | None = None) -> None:
        self._said = TemporaryFile()  # noqa: SIM115 - `ended` closes both
        self._errors = TemporaryFile()  # noqa: SIM115
        self._process = preloaded.start(
            (*COMMAND, *arguments, "--config", str(config)),
            environ=environment(),
            stdin=stdin,
            stdout=self._said.fileno(),
            stderr=self._errors.fileno(),
        )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """Return its exit code and what it has said, to stdout and to stderr, when it has ended."""
        code = self._process.wait(LIMIT_S)
        with self._said as said, self._errors as errors:
            said.seek(0)
            errors.seek(0)
            return code, said.read().decode(), errors.read().decode()


class Scene:
    """A stage, its box of letters, and what the command does with them."""

    def __init__(self, stage: Stage, kafka: str) -> None:
        self.stage = stage
        self.box = Box(stage, kafka)
        self.kafka = kafka
        self.config = stage.config()

    def dlq(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `onceward-dlq` to its end; `code` is the exit code that is expected."""
        argv = (*COMMAND, *arguments, "--config", str(self.config))
        done = preloaded.run(argv, environ=environment(), timeout_s=LIMIT_S)
        assert code is None or done.returncode == code, f"{done.returncode}: {done.stderr}"
        return done

    def said(self, *arguments: str, code: int | None = 0) -> dict[str, Any]:
        """Run `onceward-dlq` with --json and return what it says; its questions are answered."""
        yes = ("--yes",) if arguments[0] in ("discard", "redrive") else ()
        said: dict[str, Any] = json.loads(self.dlq(*arguments, *yes, "--json", code=code).stdout)
        return said

    def start(self, *arguments: str, stdin: int | None = None) -> StartedDlq:
        """Start `onceward-dlq` and wait for nothing."""
        return StartedDlq(self.config, *arguments, stdin=stdin)

    def repair(self) -> None:
        """Give the handlers what they need."""
        self._repaired.touch()

    def break_again(self) -> None:
        """Take it from them."""
        self._repaired.unlink(missing_ok=True)

    @property
    def _repaired(self) -> Path:
        return Path(self.stage.variables()["TEST_RUNS"] + ".repaired")

    def fail(self, *values: Any, handler: str = "repairable", **options: Any) -> list[str]:
        """Send requests and return their ids once each has its letter."""
        topic = self.stage.topics[handler]
        sent = [self.stage.client.send(value, topic=topic, **options) for value in values]
        ids = [one.request_id for one in sent]
        self.box.closed(ids)
        return ids

    def records(self, topic: str) -> list[Record]:
        """Return all records of a topic."""
        with KafkaScan(KafkaSection(bootstrap_servers=self.kafka)) as scan:
            return [one for page in scan.pages(scan.spans([topic])) for one in page.records]

    def sent_back(self, handler: str = "repairable") -> Counter[str]:
        """Return how often each request was sent back by a redrive."""
        return Counter(
            header(one, "onceward-request-id")
            for one in self.records(self.stage.topics[handler])
            if any(name == "DLQ_REDRIVE_ID" for name, _ in one.headers)
        )

    def actions(self, request_id: str | None = None) -> list[RowMapping]:
        """Return what was done, in order: to one request, or to all."""
        wanted = select(action).where(action.c.group == self.stage.group).order_by(action.c.id)
        if request_id is not None:
            wanted = wanted.where(action.c.request_id == request_id)
        return self._read(wanted)

    def redrives(self) -> list[RowMapping]:
        """Return the redrives of the group."""
        return self._read(select(redrive).where(redrive.c.group == self.stage.group))

    def _read(self, wanted: Any) -> list[RowMapping]:
        engine = create_engine(self.stage.journal_url, poolclass=NullPool)
        with engine.connect() as connection:
            return list(connection.execute(wanted).mappings())
