"""Many letters: memory does not grow with them."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumer.dlq.letter import Letter
from feedback.errors import ExitCode
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.samples import FAILED_AT, letter
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.kit.program import ROOT
from tests.kit.settings import environment

# Few fill what is held at a time.
FEW, MANY = 4_000, 20_000
VALUE_BYTES = 1024
# The letters between the two, were they kept, would take 40 MiB and more.
ROOM_MIB = 15.0

# Peak memory is that of a process of its own.
MEASURED = """
import resource, sys
from consumer.dlq.commands import cli
try:
    cli(sys.argv[1:])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def letters(group: str, begin: int, end: int) -> Iterator[Letter]:
    """Return letters, each with a text of its own in whatever could be kept."""
    for number in range(begin, end):
        value = b"%0*d" % (VALUE_BYTES, number)
        yield letter(
            f"request-{number}",
            of={"value": value, "timestamp_ms": FAILED_AT},
            DLQ_CONSUMER_GROUP=group,
            DLQ_REASON=f"REASON_{number}",
            DLQ_EXCEPTION_CLASS=f"pkg.Class{number}",
            DLQ_FAILED_AT=str(FAILED_AT + number * 60_000),
        )


def peak_mib(config: Path, *arguments: str) -> tuple[float, str]:
    """Run the command; return the most memory that it had, and what it printed."""
    done = subprocess.run(
        (sys.executable, "-c", MEASURED, *arguments, "--config", str(config)),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == ExitCode.FINE, done.stderr
    return float(done.stderr.splitlines()[-1]), done.stdout


def test_a_list_and_an_export_of_many_letters_take_the_memory_of_few(
    make_box: MakeBox, topic: Callable[..., str], tmp_path: Path
) -> None:
    stage = make_box("work").stage
    config, kafka = stage.config(), stage.client.settings.kafka.bootstrap_servers
    few, many = topic(1), topic(1)
    write(kafka, few, letters(stage.group, 0, FEW))
    write(kafka, many, letters(stage.group, 0, MANY))
    target = str(tmp_path / "letters.parquet")
    for arguments in (["list", "--json", "--limit", "10"], ["export", target]):
        of_few, _ = peak_mib(config, *arguments, "--dlq", few)
        of_many, printed = peak_mib(config, *arguments, "--dlq", many)
        if printed:
            assert json.loads(printed.splitlines()[-1])["summary"]["shown"] == MANY
        assert of_many - of_few < ROOM_MIB, (arguments[0], of_few, of_many)
