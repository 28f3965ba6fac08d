"""`python -m tests.spark_audit.run.filling DAY`: audits on a full disk, with more room each time.

It runs where the disk is mounted, and prints a JSON line for each run. DAY is a JSON object that
names the servers, the topic, the journal, the group and the disk.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypedDict

from feedback.errors import NotAvailable
from spark_audit.output.paths import DayPaths
from spark_audit.spark import open_session
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.run.scene import Scene
from tests.spark_audit.small import SMALL
from tests.spark_audit.stage.journal import HandWritten
from tests.spark_audit.stage.samples import DATE
from tests.stack import Servers
from tests.stack.full_disk import fill

KIB = 1 << 10


class Ended(TypedDict):
    """How a run with little room ended: its error, and what looks finished after it."""

    room_bytes: int
    error: str | None
    finished: list[str]
    report: list[str]
    is_told: bool
    leftovers: list[str]


def audited(scene: Scene, disk: Path, room_bytes: int) -> Ended:
    """Run the audit with so much room, and return how it ended and what it left."""
    ballast = fill(disk, but_bytes=room_bytes)
    error = None
    try:
        scene.audit()
    except NotAvailable as refused:
        error = str(refused)
    ballast.unlink()
    finished = (one.parent.name for one in scene.output.glob("*/date=*"))
    return {
        "room_bytes": room_bytes,
        "error": error,
        "finished": sorted(finished),
        "report": sorted(one.name for one in DayPaths(scene.output, DATE).report.glob("*")),
        "is_told": not list(scene.output.glob("untold-*")),
        "leftovers": [str(one) for one in scene.leftovers()],
    }


def main() -> None:
    """Run the audit with too little room, further each time, and then once with enough."""
    day = json.loads(sys.argv[1])
    disk = Path(day["disk"])
    spark = open_session(master="local[2]", jars=audit_jars(), conf=SMALL)
    scene = Scene(
        spark,
        Servers(kafka=day["kafka"], redis=day["redis"]),
        day["topic"],
        HandWritten(day["journal"], day["group"]),
        disk / "audit",
    )
    fill_until(scene, disk, lambda ended: "snapshot" in ended["finished"], step_bytes=32 * KIB)
    # The run that had room for the snapshot may have got further. From here on it takes little.
    for one in scene.output.glob("*/date=*"):
        if one.parent.name != "snapshot":
            shutil.rmtree(one)
    fill_until(scene, disk, lambda ended: ended["error"] is None, step_bytes=8 * KIB)
    scene.audit_goes_right()
    spark.stop()


def fill_until(
    scene: Scene, disk: Path, is_enough: Callable[[Ended], bool], *, step_bytes: int
) -> None:
    """Run the audit with no room, and a step more each time, until it gets far enough."""
    for times in count():
        ended = audited(scene, disk, step_bytes * times)
        print(json.dumps(ended), flush=True)
        if is_enough(ended):
            return


if __name__ == "__main__":
    main()
