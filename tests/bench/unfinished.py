"""What a killed worker costs with `delivery="at_least_once"`: what is lost, what runs again.

    python -m tests.bench.unfinished [--requests 20000] [--kills 10] [--journal sqlite|none]

One worker with 50 slots runs requests that no client waits for. It is killed with SIGKILL while its
slots are full and started again, so often. Printed as JSON: requests; lost: never ran to the end;
repeated: ran more than once; in_flight: how many had begun, and had no tombstone yet when their
worker was killed; needlessly: ran again and were none of these; left: without a tombstone at the
end; seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from feedback.clock import monotonic_s
from tests.consumer.features.waits.topics import unfinished
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.stack import Servers, Stack

HANDLERS = "tests.bench.unfinished_handlers"
SLOTS = {"processes": 2, "slots_per_process": 25}
WITHIN_S = 900.0


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.unfinished", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--kills", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--journal", choices=("sqlite", "none"), default="none")
    asked = parser.parse_args(arguments)
    with Stack.start() as servers, tempfile.TemporaryDirectory(prefix="unfinished-") as folder:
        found = measure(
            servers,
            Path(folder),
            requests=asked.requests,
            kills=asked.kills,
            journal=asked.journal,
        )
    print(json.dumps(found))
    return 1 if found["lost"] or found["needlessly"] or found["left"] else 0


def measure(
    servers: Servers, folder: Path, *, requests: int, kills: int, journal: str
) -> dict[str, float | str]:
    """Return what became of so many requests."""
    url = f"sqlite:///{folder}/journal.db"
    given = {"journal": {"url": ""}} if journal == "none" else {}
    with open_stage(
        servers=servers,
        journal_url=url,
        folder=folder,
        handlers=("flight",),
        partitions=4,
        worker={"handlers": [HANDLERS], **SLOTS},
        **given,
    ) as stage:
        for number in range(requests):
            stage.post(b"x" * 200, headers=identity(f"id-{number}"), handler="flight")
        began_s = monotonic_s()
        in_flight: set[str] = set()
        worker = stage.start()
        for number in range(1, kills + 1):
            _await_ends(stage, number * requests // (kills + 1))
            worker.kill()
            in_flight |= unfinished(servers, stage, "flight") & _names(stage, "run")
            worker = stage.start()
        eventually(
            lambda: len(_names(stage, "end")) == requests, timeout_s=WITHIN_S, interval_s=1.0
        )
        eventually(lambda: not unfinished(servers, stage, "flight"), timeout_s=60, interval_s=1.0)
        seconds = monotonic_s() - began_s
        worker.stop()
        runs = Counter(one["request_id"] for one in stage.runs())
        repeated = {name for name, count in runs.items() if count > 1}
        return {
            "journal": journal,
            "requests": requests,
            "kills": kills,
            "lost": requests - len(_names(stage, "end")),
            "repeated": len(repeated),
            "in_flight": len(in_flight),
            "needlessly": len(repeated - in_flight),
            "left": len(unfinished(servers, stage, "flight")),
            "seconds": round(seconds, 1),
        }


def _await_ends(stage: Stage, count: int) -> None:
    eventually(
        lambda: len(stage.runs(at="end")) >= count,
        timeout_s=WITHIN_S,
        interval_s=0.2,
        what=f"{count} ends",
    )


def _names(stage: Stage, at: str) -> set[str]:
    return {one["request_id"] for one in stage.runs(at=at)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
