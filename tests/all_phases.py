"""Run all tests in two phases, then look a second time at the few that failed.

Phase 1 runs the tests side by side, because most of them wait: for servers, leases, deaths. Spark
does not wait. Beside its tests the others would miss their time limits, so they form phase 2.

A test that fails beside others and passes alone depends on the speed of the machine. That is a
fault of the test or of the product, and the last lines of the output name it; but it does not
refuse a change that did not cause it. So at most `SECOND_LOOK_LIMIT` failed tests run again, each
`TIMES_ALONE` times with nothing beside it. One failure of these and the whole run has failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PHASES = (
    ("-n", "3", "--ignore", "tests/spark_audit"),
    ("-n", "2", "tests/spark_audit"),
)
SECOND_LOOK_LIMIT = 3
TIMES_ALONE = 3
FAILED_FILE = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the phases; return 0 when every test passed, or passed at the second look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", help="a marker expression, such as 'not long'")
    kind = parser.parse_args(arguments).kind
    FAILED_FILE.unlink(missing_ok=True)
    codes = [_pytest("--dist", "worksteal", "-m", kind, *phase) for phase in PHASES]
    if not any(codes):
        return 0
    failed = failed_tests(FAILED_FILE)
    if not may_look_again(codes, failed):
        return 1
    print(f"\nA second look, alone, at: {', '.join(failed)}", flush=True)
    if any(_pytest("-v", *failed) for _ in range(TIMES_ALONE)):
        return 1
    print(f"UNSTABLE, failed once and passed {TIMES_ALONE} times alone: {', '.join(failed)}")
    return 0


def may_look_again(codes: Sequence[int], failed: Sequence[str]) -> bool:
    """Say whether the phases failed by single tests, and by few of them.

    Args:
        codes: the exit codes of the phases.
        failed: the ids of the failed tests, as pytest names them.
    """
    by_tests_alone = {*codes} <= {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    return by_tests_alone and 0 < len(failed) <= SECOND_LOOK_LIMIT


def failed_tests(file: Path) -> list[str]:
    """Return the ids of the tests that pytest's cache names as failed."""
    return sorted(json.loads(file.read_text())) if file.exists() else []


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
