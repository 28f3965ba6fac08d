"""A Python process whose wall clock is off."""

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "off_clock"


def clock_off_by(seconds: float) -> dict[str, str]:
    """Return the variables that set the wall clock of a Python process and of its children off.

    The monotonic clock goes on as it is, as on a host whose clock is set wrong.
    """
    before = os.environ.get("PYTHONPATH")
    return {
        "CLOCK_OFF_BY_S": str(seconds),
        "PYTHONPATH": f"{_FOLDER}{os.pathsep}{before}" if before else str(_FOLDER),
    }
