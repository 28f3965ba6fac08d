"""The handlers of a bench's worker: the one of the test, with the bench's topic, and watched.

A worker and each of its children import this module; the variable `plan.VARIABLE` says of which
handler. Without the variable the module declares nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from functools import cache, wraps
from types import ModuleType
from typing import Any

from consumer.handlers.declaration import Handler
from consumer.handlers.registry import DECLARED
from consumer.handlers.request import Request
from onceward.testing.counterparty import CALLER, KeyRefused
from onceward.testing.deaths import RUN, Point, reach
from onceward.testing.real.child_plan import VARIABLE, ChildPlan
from onceward.testing.watched import WatchedGate, watched


class DeskCaller:
    """Asks the bench's desk, each time over a connection of its own. Any thread.

    Args:
        path: of its socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, what: str, **facts: str) -> Any:
        """Return the desk's answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self._path)
            connection.sendall(json.dumps({"ask": what, **facts}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                return json.loads(answers.readline())

    def call(self, what: str, place: str, key: str) -> Any:
        """Call a counterparty, which lives in the test's process.

        Raises:
            KeyRefused: the key is void.
            LookupError: the test has no such counterparty.
        """
        answer = self.ask(what, place=place, key=key)
        if "refused" in answer:
            raise KeyRefused(key)
        if "error" in answer:
            raise LookupError(answer["error"])
        return answer["result"]


@cache
def desk() -> DeskCaller:
    """Return the way to the bench of this child."""
    return DeskCaller(ChildPlan.decode(os.environ[VARIABLE]).desk)


class ChildRun:
    """A run in a real child, which dies with its process.

    Args:
        request_id: its request.
        caller: asks where it dies.
    """

    def __init__(self, request_id: str, caller: DeskCaller) -> None:
        self._request_id = request_id
        self._caller = caller

    def reach(self, point: Point) -> None:
        """Come to a point; where the run is to die, this does not return."""
        match self._caller.ask("point", point=point, request_id=self._request_id):
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                threading.Event().wait()

    def go_on(self) -> None:
        """Return: a dead process asks nothing."""


class ChildGate(WatchedGate):
    """The door to a marked effect: the point before it is reached here.

    Attributes:
        is_told: the bench has heard that the run was let in.
    """

    is_told = False

    def __enter__(self) -> None:
        reach(Point.BEFORE_EFFECT)
        super().__enter__()
        self._tell()

    async def __aenter__(self) -> None:
        reach(Point.BEFORE_EFFECT)
        await super().__aenter__()
        self._tell()

    def _tell(self) -> None:
        if not self.is_told:
            self.is_told = True
            desk().ask("effect", request_id=self.request_id)


def watch_all() -> None:
    """Let all handlers of this child tell their points."""
    CALLER.append(desk())
    for known in DECLARED.handlers:
        DECLARED.add(_watched(known))


def declare(plan: ChildPlan) -> None:
    """Import the module of the test, and keep its handler alone, watched.

    Raises:
        LookupError: the handler is not in it.
    """
    CALLER.append(desk())
    found: Any = _module(plan)
    for part in plan.name.split("."):
        found = getattr(found, part)
    known = next((one for one in DECLARED.handlers if one.function is found), None)
    if known is None:
        raise LookupError(f"{plan.module}.{plan.name} has no @handler")
    DECLARED.keep_only(_watched(replace(known, topic=plan.topic)))


def _watched(handler: Handler) -> Handler:
    def began(request_id: str) -> None:
        RUN.set(ChildRun(request_id, desk()))
        desk().ask("began", request_id=request_id)

    return _leaving(watched(handler, began, gate=ChildGate))


def _leaving(handler: Handler) -> Handler:
    """Return the handler so that a thread forgets its run: it asks counterparties afterwards too.

    The task of a coroutine has a context of its own.
    """
    function = handler.function

    @wraps(function)
    def plain(request: Request) -> object:
        try:
            return function(request)
        finally:
            RUN.set(None)

    return handler if handler.is_coroutine else replace(handler, function=plain)


def _module(plan: ChildPlan) -> ModuleType:
    """Import by name; where pytest found it otherwise, from its file."""
    try:
        return importlib.import_module(plan.module)
    except ModuleNotFoundError as error:
        spec = importlib.util.spec_from_file_location(plan.module, plan.file)
        if error.name != plan.module.partition(".")[0] or spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        sys.modules[plan.module] = module
        spec.loader.exec_module(module)
        return module


if VARIABLE in os.environ and (given := ChildPlan.decode(os.environ[VARIABLE])).name:
    declare(given)
