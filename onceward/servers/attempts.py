"""Commands that fetch from outside and may fail once for reasons that pass."""

import subprocess
import time
from collections.abc import Mapping, Sequence

ATTEMPTS = 3
PAUSE_S = 5.0


def run_with_retries(
    argv: Sequence[str],
    *,
    timeout_s: float,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    pause_s: float = PAUSE_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends with 0, three times at most; return the last attempt.

    Args:
        argv: the command; safe to repeat.
        timeout_s: the limit of each attempt.
        environ: its environment; None for that of this process.
        pass_fds: file descriptors that it inherits.
        pause_s: the time between two attempts.

    Raises:
        subprocess.TimeoutExpired: an attempt took longer; it is not repeated.
    """
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(
            argv,
            env=environ,
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        if not done.returncode:
            break
        if attempt < ATTEMPTS:
            time.sleep(pause_s)
    return done


def last_lines(printed: str, count: int = 20) -> str:
    """Return the last lines that a command printed."""
    return "\n".join(printed.splitlines()[-count:])
