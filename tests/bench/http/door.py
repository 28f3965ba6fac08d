"""One front door: a topic and a group of its own, and a real process that serves them."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from feedback.settings.settings import Settings, load
from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.http.connections import Address
from tests.bench.launching import running
from tests.bench.measure.cost import Meters
from tests.bench.measure.processes import MIB, own_cpu_s
from tests.bench.systems.onceward import fresh_topic
from tests.bench.systems.trial import server_meters
from tests.eventually import eventually
from tests.stack import Servers

SERVE = ("-m", "producer_client", "serve")
NO_LIMIT = "100000000/second"
START_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Door:
    """A front door that serves.

    Attributes:
        parts: a CPU meter for the door, this process and each server.
    """

    topic: str
    settings: Settings
    address: Address
    pid: int
    parts: Meters

    @property
    def rss_mib(self) -> float:
        """Its resident memory."""
        return float(psutil.Process(self.pid).memory_info().rss) / MIB


@contextmanager
def door(servers: Servers, log: Path) -> Iterator[Door]:
    """Yield a new front door with the settings that users have, but for the limits of rates."""
    with fresh_topic(servers.kafka) as topic:
        named = {
            "KAFKA__GROUP": f"bench-{uuid.uuid4().hex}",
            "HTTP__TOPICS": topic,
            "HTTP__PORT": "0",
            "HTTP__SUBMIT_RATE": NO_LIMIT,
            "HTTP__STATUS_RATE": NO_LIMIT,
        }
        ours = {f"ONCEWARD_{name}": value for name, value in named.items()}
        environ = {**os.environ, **servers.settings(), **ours}
        settings = load(
            None,
            kafka={"bootstrap_servers": servers.kafka, "group": named["KAFKA__GROUP"]},
            redis={"url": servers.redis},
        )
        with running((sys.executable, *SERVE), environ=environ, log=log) as process:
            port = eventually(
                lambda: _port(log, has_ended=process.poll() is not None),
                timeout_s=START_LIMIT_S,
                what="the front door",
            )
            assert port is not None
            parts: Meters = {
                "door": partial(own_cpu_s, process.pid),
                "load": partial(own_cpu_s, os.getpid()),
                **server_meters(servers),
            }
            yield Door(topic, settings, ("127.0.0.1", port), process.pid, parts)


def _port(log: Path, *, has_ended: bool) -> int | None:
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    for line in lines:
        if '"http.started"' in line:
            return int(json.loads(line)["port"])
    if has_ended:
        raise BenchError(f"the front door has ended:\n{tail(log)}")
    return None
