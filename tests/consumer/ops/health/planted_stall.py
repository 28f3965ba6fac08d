"""A module beside the handlers that does what none should: SIGUSR1 blocks the main thread.

It waits at the gate that `TEST_STALL_GATE` names, as a user's signal handler would that asks a
server which does not answer.
"""

import fcntl
import os
import signal
from pathlib import Path
from types import FrameType


def block_the_loop(number: int, frame: FrameType | None) -> None:
    """Wait until the test opens the gate."""
    with Path(os.environ["TEST_STALL_GATE"]).open() as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)


signal.signal(signal.SIGUSR1, block_the_loop)
