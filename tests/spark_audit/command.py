"""`onceward-audit run` as a user runs it, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from tests.kit.settings import environment

ROOT = Path(__file__).parents[2]
# A session of Spark and all its first queries: 80 s alone, but its lane stands back behind others
# (`conftest.LANE_FACTOR`): 263 s at a load of 24. Who hangs is ended by the test's own limit.
LIMIT_S = 720.0


def run_audit_command(
    config: Path, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Return the ended command.

    Args:
        arguments: after `run --config`.
        settings: of the environment.
    """
    return subprocess.run(
        [sys.executable, "-m", "spark_audit", "run", "--config", str(config), *arguments],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
