"""`python -m tests.bench.outbox [insert relay latency kills cut] [--scale 0.1]`."""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from feedback.clock import monotonic_s
from onceward.servers.kafka import Broker
from tests.bench.measure.processes import machine_busy_s, tree_cpu_s
from tests.bench.outbox import cases
from tests.bench.outbox.cut import cut
from tests.bench.outbox.scene import Scene, open_scene
from tests.bench.rows import write_json
from tests.kit.program import ROOT
from tests.left_open import left_open
from tests.stack import Servers, Stack
from tests.stack.restartable import restartable

OUTPUT = ROOT / "build" / "bench" / "outbox.json"
DATABASES = ("postgres", "sqlite")
CUT = "cut"
Case = Callable[[Scene], cases.Figures]


def main() -> None:
    """Measure what is asked for, and write the rows of it."""
    parser = argparse.ArgumentParser(description="What the outbox costs and what it bears.")
    parser.add_argument("cases", nargs="*", default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="of the requests; 1 by default")
    parser.add_argument("--database", choices=DATABASES, action="append")
    given = parser.parse_args()

    def size(requests: int) -> int:
        return max(200, int(requests * given.scale))

    known: dict[str, Case] = {
        "insert": partial(cases.insert, rounds=size(2000)),
        "relay": partial(cases.relay, requests=size(50_000)),
        "latency": partial(cases.latency, requests=size(1000)),
        "kills": partial(cases.kills, requests=size(50_000), times=20),
    }
    rows = []
    with left_open(), Stack.start() as servers:
        for name in given.cases or (*known, CUT):
            for database in given.database or DATABASES:
                if name == CUT:
                    rows.append(_measured_cut(servers, database, away_s=60 * given.scale))
                else:
                    rows.append(_measured(servers, database, known[name]))
                print(json.dumps(rows[-1]), flush=True)
    write_json(OUTPUT, rows)


def _measured_cut(servers: Servers, database: str, *, away_s: float) -> dict[str, object]:
    with restartable(Broker) as broker:
        case = partial(cut, broker=broker, away_s=away_s)
        return _measured(replace(servers, kafka=broker.address), database, case)


def _measured(servers: Servers, database: str, case: Case) -> dict[str, object]:
    busy_s, own_s, began_s = machine_busy_s(), tree_cpu_s(os.getpid()), monotonic_s()
    with open_scene(servers, database) as scene:
        figures = case(scene)
    others_s = machine_busy_s() - busy_s - (tree_cpu_s(os.getpid()) - own_s)
    whole_s = (monotonic_s() - began_s) * (os.cpu_count() or 1)
    other = round(max(0.0, 100 * others_s / whole_s))
    return {"database": database, **figures, "other_cpu_percent": other}


if __name__ == "__main__":
    main()
