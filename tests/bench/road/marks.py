"""Marks: a process writes that a request has reached a step of its road."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import cache, wraps
from pathlib import Path
from typing import Any

# The folder of the marks; each process writes a file of its own.
FOLDER_VARIABLE = "BENCH_ROAD"

Ids = Iterable[str]


@cache
def _file() -> int:
    path = Path(os.environ[FOLDER_VARIABLE]) / f"{os.getpid()}.marks"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def mark(step: str, request_ids: Ids) -> None:
    """Note that these requests are at a step now. One write, so no process end cuts a line."""
    at_s = time.monotonic()
    lines = "".join(f"{step} {one} {at_s:.6f}\n" for one in request_ids)
    if lines:
        os.write(_file(), lines.encode())


def marked(
    owner: type,
    name: str,
    *,
    before: Callable[..., Iterable[tuple[str, Ids]]] = lambda *_, **__: (),
    after: Callable[..., Iterable[tuple[str, Ids]]] = lambda *_, **__: (),
) -> None:
    """Let each call of a method write marks.

    Args:
        before: called with the call's arguments, but for `self`; returns steps with their requests.
        after: the same, with the result as the first argument.
    """
    function = getattr(owner, name)

    @wraps(function)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        for step, request_ids in before(*given, **named):
            mark(step, request_ids)
        result = function(self, *given, **named)
        for step, request_ids in after(result, *given, **named):
            mark(step, request_ids)
        return result

    setattr(owner, name, call)
