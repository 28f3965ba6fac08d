"""The page of a request's way names the files that a request enters, and no others."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import consumer
from onceward import State
from onceward.testing import MemoryService
from tests.consumer import walked

LIMIT_S = 60.0
ROOM = Path(consumer.__file__).parent
THREADS = ("onceward-intake", "onceward-worker", "onceward-status_writer")
# Of the child: a profiler of this process does not see it.
IN_CHILD = {"pool/runs", "pool/child", "pool/job", "pool/slots", "pool/outbox", "pool/outcome"}
# These threads enter them at each turn, with a request or without one.
TICKS = {
    *("loop/own_runs", "ops/health/progress", "ops/log_level", "ops/service", "ops/signals"),
    *("journal/history", "journal/open_requests", "journal/pacing", "journal/restoring"),
    *("journal/tables", "pool/respawn_policy", "status/availability", "status/liveness"),
    "status/status_restore",
}


class Walk:
    """Notes the files of the room that the worker's threads enter, while it is on."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.is_on = False
        self._prefix = f"{ROOM}{os.sep}"

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Hear of a call, as a profiler does."""
        name = frame.f_code.co_filename
        if (
            self.is_on
            and event == "call"
            and name.startswith(self._prefix)
            and threading.current_thread().name in THREADS
        ):
            self.entered.add(name.removeprefix(self._prefix).removesuffix(".py"))


@pytest.fixture
def walk() -> Iterator[Walk]:
    """Yield the notes of all threads that are started from now on."""
    before, notes = threading.getprofile(), Walk()
    threading.setprofile(notes.note)
    yield notes
    threading.setprofile(before)


def _named() -> set[str]:
    """Return the files of the steps of the page."""
    page = (consumer.__doc__ or "").partition("The way of a request")[2]
    steps = page.partition("A run that has no end")[0]
    return {name for name in re.findall(r"`([^`]*)`", steps) if "/" in name}


def test_the_page_names_files_that_are_there() -> None:
    named = _named()
    assert len(named) > 40
    assert [one for one in named if not (ROOM / f"{one}.py").is_file()] == []
    assert named >= IN_CHILD


def test_a_request_enters_the_files_of_the_page_and_no_others(walk: Walk) -> None:
    with MemoryService(walked.work) as service, service.client() as client:
        # What is made once, at the first request, is no part of the way.
        for walk.is_on in (False, True):
            sent = client.send(b"{}", topic="walked", key="card-1")
            assert sent.wait(LIMIT_S).state is State.SUCCEEDED
            service.settle()
        walk.is_on = False
    here = _named() - IN_CHILD
    assert here - walk.entered == set()
    assert walk.entered - here - TICKS == set()
