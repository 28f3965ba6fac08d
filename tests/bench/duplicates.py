"""`python -m tests.bench.duplicates`: every record lies in the topic four times.

The worker has the settings of `make bench`. Two cases:
- `answered`: all requests have run; the other three records of each lie in the topic when the
  worker starts;
- `mixed`: none has run; blocks of 500 requests lie there four times, one after the other, as a
  network that acknowledges too late leaves them.
Counted from the first record that the worker has taken to the last request told: a request of its
own stands at both ends of each partition. The rows of `build/bench/duplicates.json`: journal, case,
round, requests, records, seconds, records_per_s, not_run, ran_twice, other_cpu_percent (of the
machine, before the case began).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from kafka import KafkaProducer

from feedback.clock import monotonic_s
from feedback.records.envelope import REQUEST_ID
from feedback.status import FINAL, State
from onceward.servers.errors import tail
from tests.bench.duplicated_handlers import RUNS_VARIABLE
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT, running
from tests.bench.plan import PARTITIONS
from tests.bench.rows import write_json
from tests.bench.systems import onceward
from tests.bench.systems.prepared import Prepared, prepared
from tests.eventually import eventually
from tests.stack import Servers, Stack

REQUESTS = 12_500
COPIES = 4
BLOCK = 500
CASES = ("answered", "mixed")
HANDLERS = "tests.bench.duplicated_handlers"
OUTPUT = ROOT / "build" / "bench" / "duplicates.json"
LIMIT_S = 200.0
LOOK_S = 0.01
OTHERS_S = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """One case; see the module for the fields."""

    journal: str
    case: str
    round: int
    requests: int
    records: int
    seconds: float
    records_per_s: int
    not_run: int
    ran_twice: int
    other_cpu_percent: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.duplicates", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--journals", default="sqlite,postgres", help="default: %(default)s")
    asked = parser.parse_args(arguments)
    rows: list[Row] = []
    with Stack.start() as servers:
        for number in range(1, asked.rounds + 1):
            for journal in asked.journals.split(","):
                for case in CASES:
                    rows.append(
                        measure(
                            servers,
                            requests=asked.requests,
                            journal=journal,
                            case=case,
                            number=number,
                        )
                    )
                    write_json(OUTPUT, [asdict(row) for row in rows])
                    print(rows[-1], flush=True)
    return 1 if any(row.not_run or row.ran_twice for row in rows) else 0


def measure(servers: Servers, *, requests: int, journal: str, case: str, number: int) -> Row:
    """Return how long it took, and what ran.

    Raises:
        BenchError: not all ended in time; ends with the worker's log.
    """
    with (
        tempfile.TemporaryDirectory(prefix="duplicates-") as name,
        prepared(servers, journal=journal, handlers=HANDLERS, folder=Path(name)) as scene,
        KafkaProducer(bootstrap_servers=servers.kafka, linger_ms=5) as producer,
    ):
        runs = Path(name) / "runs"
        scene.environ[RUNS_VARIABLE] = str(runs)
        names = [f"r{one:06}" for one in range(requests)]
        if case == "answered":
            _work_off(scene, producer, names, mark="original")
            copies = names * (COPIES - 1)
        else:
            blocks = (names[at : at + BLOCK] for at in range(0, requests, BLOCK))
            copies = [one for block in blocks for one in block * COPIES]
        other_cpu_percent = psutil.cpu_percent(OTHERS_S)
        seconds = _work_off(scene, producer, copies, mark="copy")
        ran = Counter(runs.read_text().split())
        return Row(
            journal=journal,
            case=case,
            round=number,
            requests=requests,
            records=len(copies),
            seconds=round(seconds, 3),
            records_per_s=round(len(copies) / seconds),
            not_run=sum(one not in ran for one in names),
            ran_twice=sum(count > 1 for count in ran.values()),
            other_cpu_percent=other_cpu_percent,
        )


def _work_off(
    scene: Prepared, producer: KafkaProducer, names: Sequence[str], *, mark: str
) -> float:
    """Put records between marks into the topic, let a worker read them; return its seconds."""
    first = _put_marks(scene, producer, f"{mark}-first")
    _put(scene, producer, ((name, index % PARTITIONS) for index, name in enumerate(names)))
    last = _put_marks(scene, producer, f"{mark}-last")
    with running(onceward.WORKER, environ=scene.environ, log=scene.log):
        try:
            _await(lambda: _states(scene, first) != {State.UNKNOWN}, "the first is taken")
            began_s = monotonic_s()
            _await(lambda: _states(scene, last) <= FINAL, "the last is told")
        except TimeoutError as error:
            raise BenchError(f"{error}\n{tail(scene.log)}") from error
        return monotonic_s() - began_s


def _put_marks(scene: Prepared, producer: KafkaProducer, mark: str) -> list[str]:
    """Put a request of its own into each partition; return their ids."""
    names = [f"{mark}-{partition}" for partition in range(PARTITIONS)]
    _put(scene, producer, ((name, partition) for partition, name in enumerate(names)))
    return names


def _put(scene: Prepared, producer: KafkaProducer, records: Iterable[tuple[str, int]]) -> None:
    sent = [
        producer.send(
            scene.topic,
            value=b'{"amount": 1}',
            headers=[(REQUEST_ID, name.encode())],
            partition=partition,
        )
        for name, partition in records
    ]
    for future in sent:
        future.get(timeout=60)


def _states(scene: Prepared, names: Sequence[str]) -> set[State]:
    return {one.state for one in scene.store.read_many(names)}


def _await(condition: Callable[[], bool], what: str) -> None:
    eventually(condition, timeout_s=LIMIT_S, interval_s=LOOK_S, what=what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
