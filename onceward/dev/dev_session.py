"""The processes of a session: a worker that starts anew after a change, and a resender."""

from __future__ import annotations

import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from feedback.clock import monotonic_s
from feedback.errors import ExitCode
from onceward.dev.member import Member
from onceward.dev.output import say, show_if_read, show_line

# Nothing in them is the user's own code.
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

# Of each file, the time of its last change in ns and its size.
FileTimes = dict[str, tuple[int, int]]


def snapshot(root: Path, *others: Path) -> FileTimes:
    """Return the state of each Python file below `root`, and of other files that are there."""
    found = {}
    for path in [*_python_files(root), *map(str, others)]:
        try:
            state = os.stat(path)  # noqa: PTH116 (thousands, twice a second)
        except FileNotFoundError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
    return found


def changed(before: FileTimes, now: FileTimes) -> list[str]:
    """Return the files that changed, came or went.

    >>> changed({"a.py": (1, 5), "b.py": (1, 5)}, {"a.py": (2, 5), "c.py": (2, 1)})
    ['a.py', 'b.py', 'c.py']
    """
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def _python_files(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        if _VIRTUAL_ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = [one for one in folders if one not in LEFT_OUT and not one.startswith(".")]
        yield from (f"{folder}/{one}" for one in files if one.endswith(".py"))


LOOK_S = 0.5
AGAIN_S = 2.0
# A first SIGTERM drains, a second one ends the runs as well.
DRAIN_S = 3.0
CUT_S = 3.0
WORKER, RESENDER = "worker", "resender"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The user's code or settings: starting it again changes nothing.
NEEDS_A_CHANGE = (ExitCode.USAGE, ExitCode.INTERNAL)


class SessionEnded(BaseException):
    """A signal asked the session to end; no `except Exception` stops it."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `SessionEnded` at the first signal in the block; its end ignores more of them.

    It must be entered in the main thread.
    """
    before = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: object) -> None:
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    raise SessionEnded


def waits_for_change(exit_code: int) -> bool:
    """Tell whether a worker that ended so is started by a change alone.

    >>> waits_for_change(ExitCode.USAGE), waits_for_change(ExitCode.NOT_AVAILABLE)
    (True, False)
    """
    return exit_code in NEEDS_A_CHANGE


class DevSession:
    """Runs the members until a signal ends it.

    Args:
        environ: of the members.
        options: of both commands, as `--config FILE`.
        root: the folder whose Python files are looked at.
        settings_file: looked at as well.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        options: Sequence[str],
        root: Path,
        settings_file: Path | None,
    ) -> None:
        # Colours of tracebacks are ours to give: theirs would be escaped.
        self._environ = {**environ, "PYTHON_COLORS": "0", "PYTHONUNBUFFERED": "1"}
        onceward = (sys.executable, "-m", "onceward")
        self._commands = {
            WORKER: (*onceward, "worker", "run", "--create-topics", *options),
            RESENDER: (*onceward, "client", "resend", *options),
        }
        self._root = root
        self._others = () if settings_file is None else (settings_file,)
        self._members: dict[str, Member] = {}
        # Monotonic times at which a member that has ended starts again.
        self._due_s: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._show = show_line

    def run(self) -> NoReturn:
        """Start the members and look after them; only an exception ends it."""
        before = self._snapshot()
        for name in self._commands:
            self._start(name)
        while True:
            self._show_output(LOOK_S)
            now = self._snapshot()
            if files := changed(before, now):
                self._reload(files)
                before = now
            self._look_at_ends()

    def close(self) -> None:
        """End all members: in order, then at once, then by force; within seconds.

        Where the terminal is closed their last lines go nowhere, and their runs end all the same.
        """
        self._show = show_if_read
        for signalled, limit_s in ((signal.SIGTERM, DRAIN_S), (signal.SIGTERM, CUT_S)):
            for one in self._members.values():
                one.signal(signalled)
            self._show_until(self._have_all_ended, limit_s)
        for name in [*self._members]:
            self._forget(name)
        self._selector.close()

    def _start(self, name: str) -> None:
        self._due_s.pop(name, None)
        member = Member(name, self._commands[name], self._environ)
        self._members[name] = member
        self._selector.register(member.file, selectors.EVENT_READ, member)

    def _reload(self, files: Sequence[str]) -> None:
        shown = ", ".join(os.path.relpath(one, self._root) for one in files[:3])
        say(f"{shown} changed: the worker starts anew")
        if (worker := self._members.get(WORKER)) is not None:
            # It takes nothing more, and its runs end: a change leaves no doubts.
            worker.signal(signal.SIGTERM)
            self._show_until(lambda: worker.exit_code is not None, None)
            self._forget(WORKER)
        self._start(WORKER)

    def _look_at_ends(self) -> None:
        for name, member in [*self._members.items()]:
            code = member.exit_code
            if code is None:
                continue
            self._show_rest()
            self._forget(name)
            if name == WORKER and waits_for_change(code):
                say(f"the {name} ended with code {code}: it starts again when a file changes")
            else:
                say(f"the {name} ended with code {code}: it starts again in {AGAIN_S:g} s")
                self._due_s[name] = monotonic_s() + AGAIN_S
        for name in [one for one, due_s in self._due_s.items() if due_s <= monotonic_s()]:
            self._start(name)

    def _show_until(self, condition: Callable[[], bool], limit_s: float | None) -> None:
        end_s = None if limit_s is None else monotonic_s() + limit_s
        while not condition() and (end_s is None or monotonic_s() < end_s):
            self._show_output(0.05)
        self._show_rest()

    def _have_all_ended(self) -> bool:
        return all(one.exit_code is not None for one in self._members.values())

    def _show_rest(self) -> None:
        while self._show_output(0.0):
            pass

    def _show_output(self, timeout_s: float) -> bool:
        """Show the output that comes within a time; tell whether any came."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            member: Any = key.data
            lines = member.lines()
            if lines is None:
                self._selector.unregister(member.file)
            for line in lines or ():
                self._show(member.name, line)
        return bool(ready)

    def _forget(self, name: str) -> None:
        member = self._members.pop(name)
        if member.file in self._selector.get_map():
            self._selector.unregister(member.file)
        member.close()

    def _snapshot(self) -> dict[str, tuple[int, int]]:
        return snapshot(self._root, *self._others)
