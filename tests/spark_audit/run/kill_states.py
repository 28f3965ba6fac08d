"""The states of an output in a bucket, of one run: a run that is killed leaves one of them.

Whoever is killed changes nothing any more. So to know what it leaves, nobody needs to run and kill
it once for each of its steps: one run is watched, and its output is copied at each of them, object
by object, by the store itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pytest

from spark_audit.output.hadoop_path import HadoopPath
from tests.stack.s3 import S3

# Each does one thing and returns when it is done.
_CHANGES = ("write_text", "make_once", "remove")


@dataclass(frozen=True, slots=True)
class KillState:
    """A copy of the output as it was at a moment of the run.

    Args:
        moment: before or after which change.
        output: its URI.
        objects: the digest of each, by its name within the output.
    """

    moment: str
    output: str
    objects: dict[str, str]


class KillStates:
    """Copies the output before and after each change of a run; Spark writes between them.

    Moments between which no object came, went or got other bytes are one state. That in which the
    run begins is none of them: the run itself goes on from there. Nor is its end.

    Args:
        output: the URI of a folder in a bucket.
        around: says whether the states before and after a change are wanted.
    """

    def __init__(self, s3: S3, output: str, *, around: Callable[[str], object]) -> None:
        self._s3 = s3
        self._bucket, self._folder = output.removeprefix("s3a://").split("/")
        self._around = around
        self._begin = self._objects(self._folder)
        self.changes: list[str] = []
        self.states: list[KillState] = []

    @contextmanager
    def within(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Watch the run in this block."""
        with monkeypatch.context() as patched:
            for name in _CHANGES:
                patched.setattr(HadoopPath, name, self._watched(getattr(HadoopPath, name)))
            patched.setattr(HadoopPath, "new_file", self._watched_file(HadoopPath.new_file))
            yield
        end = self._objects(self._folder)
        self.states = [one for one in self.states if one.objects != end]

    def _watched(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: HadoopPath, *words: Any, **named: Any) -> Any:
            with self._change(change.__name__, path):
                return change(path, *words, **named)

        return watched

    def _watched_file(self, new_file: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def watched(path: HadoopPath, **named: Any) -> Iterator[IO[str]]:
            with self._change("new_file", path), new_file(path, **named) as file:
                yield file

        return watched

    @contextmanager
    def _change(self, name: str, path: HadoopPath) -> Iterator[None]:
        change = f"{name} {path.uri.partition(f'/{self._folder}/')[2]}"
        self.changes.append(change)
        self._note("before", change)
        yield
        self._note("after", change)

    def _note(self, when: str, change: str) -> None:
        if not self._around(change):
            return
        found = self._objects(self._folder)
        if found in (self._begin, *(one.objects for one in self.states)):
            return
        copy = f"killed-{len(self.states)}"
        for name in found:
            self._s3.copy(self._bucket, f"{self._folder}/{name}", f"{copy}/{name}")
        assert self._objects(copy) == found
        uri = f"s3a://{self._bucket}/{copy}"
        self.states.append(KillState(f"{when} {change}", uri, found))

    def _objects(self, folder: str) -> dict[str, str]:
        return self._s3.objects(self._bucket, f"{folder}/")
