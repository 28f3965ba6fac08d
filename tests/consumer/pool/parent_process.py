"""A parent with a pool of two children, told what to do by its arguments; prints what happens.

    python -m tests.consumer.pool.parent_process GATE [SLOW_IMPORT]

GATE is the FIFO that its one job waits for, SLOW_IMPORT one that its child's import waits for.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from consumer.pool import Finished, Started
from tests.consumer.pool.driving import HANDLERS, Driven, job, settings


def main(gate: str, slow_import: str) -> None:
    """Run one job until the gate opens."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _tell)
    if slow_import:
        driven = Driven(settings(handlers=(f"{__package__}.slow_handlers", HANDLERS)))
    else:
        driven = Driven(settings(processes=2))
    _print("ready", *driven.pids(1 if slow_import else 2))
    driven.pool.dispatch([job("hold", gate)])
    driven.until(lambda: driven.told(Started))
    _print("started")
    driven.until(lambda: driven.told(Finished))
    _print(driven.outcomes()["r1"].state)
    driven.pool.stop(60)


def _tell(number: int, frame: FrameType | None) -> None:
    _print("signal", number)


def _print(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    os.environ["SLOW_IMPORT"] = str(Path(sys.argv[2])) if sys.argv[2] else ""
    main(sys.argv[1], sys.argv[2])
