"""What a registry does that comes back: it catches up, and reports nothing that was finished.

    python -m tests.bench.registry [--requests 100000] [--away-s 600]

While no registry runs, for so long, requests are written to the wait topic and all but a few are
finished. All are past their expiry when the registry starts, and the worker that held them is gone.
The rows of `build/bench/registry.json`: database, requests, unfinished, false_expiries, missed,
repeated, caught_up_s (from the start of the process until each unfinished one has its letter and
its tombstone and the table is empty), peak_pss_mib.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from consumer.journal import migrate
from feedback.clock import monotonic_s
from tests.bench.rows import write_json
from tests.bench.systems.onceward import fresh_journal
from tests.consumer.features.waits.registry.scene import Scene
from tests.eventually import eventually
from tests.kit.program import ROOT
from tests.stack import Servers, Stack

OUTPUT = ROOT / "build" / "bench" / "registry.json"
PARTITIONS = 4
# As in the settings.
LEASE_S = 10
HEARTBEAT_TTL_S = 5
LIMIT_S = 600.0
SAMPLE_S = 0.25
PAGE = 10_000
VALUE = b"x" * 1024


@dataclass(frozen=True, slots=True)
class Figure:
    """One run; see the module for the fields."""

    database: str
    requests: int
    unfinished: int
    false_expiries: int
    missed: int
    repeated: int
    caught_up_s: float
    peak_pss_mib: float


def measure(
    servers: Servers,
    database: str,
    url: str,
    folder: Path,
    *,
    requests: int,
    unfinished: int,
    away_s: float,
) -> Figure:
    """Write what waited and what was finished, start a registry, and count what it does."""
    migrate(url)
    scene = Scene(
        servers=servers,
        database_url=url,
        folder=folder,
        partitions=PARTITIONS,
        registry={"lease_s": LEASE_S},
        redis={"heartbeat_ttl_s": HEARTBEAT_TTL_S},
    )
    try:
        names = [f"request-{at:08d}" for at in range(requests)]
        step = requests // unfinished
        left = {names[at * step + at % PARTITIONS] for at in range(unfinished)}
        _plant(scene, names, left, within_s=away_s)
        planted = scene.ends(scene.wait_topic)
        began_s = monotonic_s()
        registry = psutil.Process(scene.start().pid)
        peak_bytes = 0

        def is_done() -> bool:
            nonlocal peak_bytes
            peak_bytes = max(peak_bytes, registry.memory_full_info().pss)
            # The cheap question first, so that asking does not slow down what is measured.
            return _has_read(scene, planted) and not scene.waiting() and not scene.begun()

        eventually(is_done, timeout_s=LIMIT_S, interval_s=SAMPLE_S, what="catching up")
        caught_up_s = monotonic_s() - began_s
        letters = scene.letters()
    finally:
        scene.close()
    return Figure(
        database=database,
        requests=requests,
        unfinished=unfinished,
        false_expiries=len(letters.keys() - left),
        missed=len(left - letters.keys()),
        repeated=sum(count - 1 for count in letters.values()),
        caught_up_s=round(caught_up_s, 1),
        peak_pss_mib=round(peak_bytes / 2**20, 1),
    )


def _plant(scene: Scene, names: list[str], left: set[str], *, within_s: float) -> None:
    """Write what waited and what was finished, evenly over this time, or as fast as it goes."""
    began_s = monotonic_s()
    for at in range(0, len(names), PAGE):
        some = list(enumerate(names[at : at + PAGE], at))
        scene.write(
            [
                scene.wait(name, partition=number % PARTITIONS, offset=number, value=VALUE)
                for number, name in some
            ]
        )
        for partition in range(PARTITIONS):
            done = [
                name
                for number, name in some
                if number % PARTITIONS == partition and name not in left
            ]
            scene.end(done, partition=partition)
        left_s = began_s + within_s * min(1.0, (at + PAGE) / len(names)) - monotonic_s()
        # The time itself is what is waited for.
        time.sleep(max(0.0, left_s))


def _has_read(scene: Scene, planted: dict[int, int]) -> bool:
    """Whether the table has all that was planted."""
    rows = scene.query(
        'SELECT "partition", "position" FROM onceward_wait_partition WHERE "group" = :g',
        g=scene.group,
    )
    read = {row["partition"]: row["position"] for row in rows}
    return all(read.get(number, 0) >= end for number, end in planted.items())


def main() -> None:
    """Measure each database."""
    parser = argparse.ArgumentParser(description="What a registry does that comes back.")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--unfinished", type=int, default=40)
    parser.add_argument("--away-s", type=float, default=0.0, help="how long none runs")
    given = parser.parse_args()
    figures = []
    with Stack.start() as servers:
        for database in ("postgres", "sqlite"):
            with (
                tempfile.TemporaryDirectory() as name,
                fresh_journal(servers, database, Path(name)) as url,
            ):
                figure = measure(
                    servers,
                    database,
                    url,
                    Path(name),
                    requests=given.requests,
                    unfinished=given.unfinished,
                    away_s=given.away_s,
                )
            figures.append(figure)
            print(json.dumps(asdict(figure)), flush=True)
    write_json(OUTPUT, [asdict(one) for one in figures])


if __name__ == "__main__":
    main()
