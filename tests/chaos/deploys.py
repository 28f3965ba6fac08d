"""Deploys: workers of another version take over, or the files change under workers that run."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

from tests.chaos.declarations import Declaration, through_all_pairs
from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.kit.program import KeptProgram

RATE = 15.0
HANDLERS = {"worker": {"handlers": ["tests.chaos.deployed"], "processes": 1}}


def rolling_deploys(scene: Scene) -> list[Figure]:
    """Replace workers by such with other declarations, one version after the other."""
    scene.take_longer()
    way = through_all_pairs(scene.random)
    versions = list(way if scene.size(True, short=False) else islice(way, 6))
    # The last version serves everything.
    versions.append(Declaration("marked"))
    numbers = count()
    old = [_start(scene, versions[0], next(numbers)) for _ in range(2)]
    scene.clients.start(Rate(RATE))
    for version in versions[1:]:
        scene.flow(1.0)
        new = [_start(scene, version, next(numbers))]
        _end(old[0], is_killed=True)
        new.append(_start(scene, version, next(numbers)))
        _end(old[1], is_killed=scene.random.random() < 0.5)
        old = new
    scene.flow(2.0)
    return [Figure("changes of declarations", len(versions) - 1, least=1)]


def _start(scene: Scene, version: Declaration, number: int) -> KeptProgram:
    file = scene.place.folder / f"declaration-{number}.json"
    file.write_text(version.as_json())
    (started,) = scene.fleet.start(variables={"CHAOS_DECLARATION": str(file)})
    return started


def _end(process: KeptProgram, *, is_killed: bool) -> None:
    if is_killed:
        process.kill()
    else:
        process.end()
        process.ended(within_s=DRAIN_TIMEOUT_S + 1.0)


def files_changed(scene: Scene) -> list[Figure]:
    """Change the files under workers that run, and kill a child, whose successor reads them."""
    scene.take_longer()
    versions = list(islice(through_all_pairs(scene.random), scene.size(12, short=4)))
    versions.append(Declaration("marked"))
    file = scene.place.folder / "declaration.json"
    file.write_text(versions[0].as_json())
    started = [_start_on(scene, file) for _ in range(2)]
    scene.clients.start(Rate(RATE))
    for version in versions[1:]:
        scene.flow(1.0)
        file.write_text(version.as_json())
        for process in started:
            for pid in process.children()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        scene.pause(2.0)
        # A worker whose children are of another version ends, and a supervisor starts it again.
        for process in started:
            process.end()
            process.ended(within_s=DRAIN_TIMEOUT_S + 1.0)
        started = [_start_on(scene, file) for _ in range(2)]
    scene.flow(2.0)
    return [Figure("changes of files", len(versions) - 1, least=1)]


def _start_on(scene: Scene, file: Path) -> KeptProgram:
    (started,) = scene.fleet.start(variables={"CHAOS_DECLARATION": str(file)})
    return started


ROWS = (
    Row(
        "rolling-deploys",
        "workers replaced by such with other declarations, through every pair of nine",
        JournalKind.POSTGRES,
        rolling_deploys,
        settings=HANDLERS,
        tell_within_s=90.0,
    ),
    Row(
        "files-changed",
        "declarations changed in the files of running workers, and a child killed",
        JournalKind.SQLITE,
        files_changed,
        settings=HANDLERS,
        tell_within_s=90.0,
        workers_end=True,
    ),
)
