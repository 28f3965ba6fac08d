"""Run schedules: `python -m tests.simulation --schedules N --seed S`; 1 when one breaks a promise.

A schedule that does is told as a story, cut down to its fewest steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.simulation.telling import run_and_tell

CHUNK = 500


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first schedule")
    parser.add_argument("--processes", type=int, default=1, metavar="P")
    given = parser.parse_args()
    began_s, done, broken = time.monotonic(), 0, 0
    for count, story in _stories(given.seed, given.schedules, given.processes):
        done += count
        if story:
            broken += 1
            print(story, end="\n\n", flush=True)
    spent_s = time.monotonic() - began_s
    print(f"{done} schedules in {spent_s:.0f} s, {broken} broke a promise")
    return 1 if broken else 0


def _stories(seed: int, schedules: int, processes: int) -> Iterator[tuple[int, str]]:
    """Yield how many schedules were run since the last, and the story of one that broke."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        chunks = [
            pool.submit(run_and_tell, first, min(CHUNK, seed + schedules - first))
            for first in range(seed, seed + schedules, CHUNK)
        ]
        for chunk in as_completed(chunks):
            yield from chunk.result()


if __name__ == "__main__":
    sys.exit(main())
