"""Our side of the counterparty: it is started, asked how far it is, and asked for its calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from onceward.servers.errors import tail
from onceward.servers.ports import HOST
from tests.bench.errors import BenchError
from tests.bench.launching import running
from tests.bench.modes.arm import Delays

ANSWERS_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the counterparty answered; times are monotonic, of this machine.

    Attributes:
        takes_s: how long it was to take.
    """

    operation_id: str
    came_s: float
    answered_s: float
    takes_s: float

    @property
    def late_s(self) -> float:
        """How much longer it took than it was to."""
        return self.answered_s - self.came_s - self.takes_s


@dataclass(frozen=True, slots=True)
class Counterparty:
    """A counterparty that runs; `address` is host and port."""

    address: str
    pid: int

    def answered(self) -> int:
        """Return how many calls it has answered."""
        return int(self._get("/count"))

    def calls(self) -> list[Call]:
        """Return all calls that it has answered, in that order."""
        return [Call(*fields) for fields in self._get("/calls")]

    def _get(self, path: str) -> Any:
        # Not by `requests`: a proxy in the environment is not for loopback.
        connection = HTTPConnection(self.address, timeout=ANSWERS_WITHIN_S)
        try:
            connection.request("GET", path)
            return json.load(connection.getresponse())
        finally:
            connection.close()


@contextmanager
def counterparty(delays: Delays, *, log: Path) -> Iterator[Counterparty]:
    """Run a counterparty with these delays until the block is left.

    Raises:
        BenchError: it did not start; ends with what it said.
    """
    module = "tests.bench.modes.counterparty"
    argv = (sys.executable, "-m", module, str(delays.slow_s), str(delays.usual_s))
    with running(argv, environ=os.environ, log=log, talks=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        if not port:
            raise BenchError(f"the counterparty did not start\n{tail(log)}")
        yield Counterparty(f"{HOST}:{port}", process.pid)
