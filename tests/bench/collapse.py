"""`python -m tests.bench.collapse`: 500 events of one key, of which only one needs to run.

One after the other they would take 125 s. The worker has its default settings. Two cases:
- `waiting`: all lie in the topic when the worker starts; counted from the first one that it has
  told ACCEPTED;
- `live`: the worker is up and idle; counted from before the first send, with the sending.
Either ends when the last of the 500 has its final status in Redis. The rows of
`build/bench/collapse.json`: journal, case, round, requests, seconds, runs, skipped, named (how many
of these name a request that SUCCEEDED), other_cpu_percent (of the machine, before the case began).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from kafka import KafkaProducer
from sqlalchemy import create_engine, text

from feedback.clock import monotonic_s
from feedback.redis.store import StatusStore
from feedback.status import FINAL, State
from feedback.statuses import Status
from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT, running
from tests.bench.rows import write_json
from tests.bench.systems import onceward
from tests.bench.systems.prepared import prepared
from tests.eventually import eventually
from tests.stack import Servers, Stack

REQUESTS = 500
HANDLERS = "tests.bench.collapsing_handlers"
OUTPUT = ROOT / "build" / "bench" / "collapse.json"
LIMIT_S = 200.0
LOOK_S = 0.005
OTHERS_S = 2.0
# What the bench's own settings would change: a user who sets nothing has others.
_DEFAULTS = ("PROCESSES", "SLOTS_PER_PROCESS", "BUFFER_LIMIT", "PREFETCH")
_NAMED = text(
    "SELECT count(*) FROM onceward_request one JOIN onceward_request other "
    "ON other.request_id = one.\"by\" AND other.state = 'SUCCEEDED' WHERE one.state = 'SKIPPED'"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One case; see the module for the fields."""

    journal: str
    case: str
    round: int
    requests: int
    seconds: float
    runs: int
    skipped: int
    named: int
    other_cpu_percent: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.collapse", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--journals", default="sqlite,postgres", help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    rows: list[Row] = []
    with Stack.start() as servers:
        for number in range(1, asked.rounds + 1):
            for journal in asked.journals.split(","):
                for case in ("waiting", "live"):
                    rows.append(measure(servers, journal=journal, case=case, number=number))
                    write_json(asked.output, [asdict(row) for row in rows])
                    print(rows[-1], flush=True)
    return 0


def measure(servers: Servers, *, journal: str, case: str, number: int) -> Row:
    """Return how long it took, and what became of each.

    Raises:
        BenchError: not all ended in time; ends with the worker's log.
    """
    with tempfile.TemporaryDirectory(prefix="collapse-") as name, ExitStack() as opened:
        scene = opened.enter_context(
            prepared(servers, journal=journal, handlers=HANDLERS, folder=Path(name))
        )
        topic, store, log = scene.topic, scene.store, scene.log
        for setting in _DEFAULTS:
            scene.environ.pop(f"ONCEWARD_WORKER__{setting}")
        other_cpu_percent = psutil.cpu_percent(OTHERS_S)
        names = [f"event-{one}" for one in range(REQUESTS)]
        if case == "waiting":
            with KafkaProducer(bootstrap_servers=servers.kafka) as producer:
                _send(producer, topic, names)
        opened.enter_context(running(onceward.WORKER, environ=scene.environ, log=log))
        try:
            if case == "live":
                producer = opened.enter_context(
                    KafkaProducer(bootstrap_servers=servers.kafka, linger_ms=5)
                )
                _warm(producer, topic, store)
                began_s = monotonic_s()
                _send(producer, topic, names)
            else:
                eventually(
                    lambda: store.read(names[0]).state is not State.UNKNOWN,
                    timeout_s=LIMIT_S,
                    interval_s=LOOK_S,
                    what="the first is read",
                )
                began_s = monotonic_s()
            ends = _ends(store, names)
        except TimeoutError as error:
            raise BenchError(f"{error}\n{tail(log)}") from error
        seconds = monotonic_s() - began_s
        states = Counter(one.state for one in ends)
        engine = create_engine(scene.url)
        opened.callback(engine.dispose)
        with engine.connect() as connection:
            named = connection.execute(_NAMED).scalar_one()
        return Row(
            journal=journal,
            case=case,
            round=number,
            requests=len(ends),
            seconds=round(seconds, 3),
            runs=states[State.SUCCEEDED],
            skipped=states[State.SKIPPED],
            named=named,
            other_cpu_percent=other_cpu_percent,
        )


def _send(producer: KafkaProducer, topic: str, names: Sequence[str], key: bytes = b"k") -> None:
    sent = [
        producer.send(
            topic,
            key=key,
            value=b"{}",
            headers=[("onceward-request-id", name.encode())],
        )
        for name in names
    ]
    for future in sent:
        future.get(timeout=30)


def _warm(producer: KafkaProducer, topic: str, store: StatusStore) -> None:
    """Let the worker join its group and run once."""
    _send(producer, topic, ["first"], key=b"another")
    _ends(store, ["first"])


def _ends(store: StatusStore, names: Sequence[str]) -> list[Status]:
    """Return how all ended, as soon as the last of them has been told.

    Raises:
        TimeoutError: one has not ended.
    """
    until_s = monotonic_s() + LIMIT_S
    while monotonic_s() < until_s:
        # The last one first: reading all of them each time would take the worker's processor.
        if store.read(names[-1]).state in FINAL:
            found = store.read_many(names)
            if all(one.state in FINAL for one in found):
                return found
        time.sleep(LOOK_S)
    raise TimeoutError("not all have ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
