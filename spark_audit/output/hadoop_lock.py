"""The lock of an output folder on a file system of Hadoop's, where nothing is given back by itself.

It is a file, `.lock`, that only one of several can make; it says who did. Whoever made it removes
it. The audit that finds one

- whose holder is gone for sure (see `holder`) takes its place;
- that a person says is dead, by its id, takes its place as well;
- whose place was taken so looks at the one that did;
- of anybody else ends. No clock is asked, and there is no lease to run out: a process that was
  paused goes on where it stood, and a store cannot refuse its later writes and deletions.

To take a place is to make a file that is called after the one before, `.lock-ID`, so that of
several one does; then the lock is still the one that was found, or another audit was faster. Nobody
writes over a lock, and nobody removes one that may be another's: it goes with its successor,
`.lock` first. If a process dies at any step, it leaves a lock whose holder is gone, or a `.lock-ID`
that nothing leads to, which the next audit removes.

If the person was wrong, the audit that lives finds that it has a successor before anything more of
it counts (`require_held`). Between this look and the write that follows lie milliseconds, which no
file system of these can close.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.holder import Holder

_LOCK = ".lock"
_LOG = EventLog("onceward.audit")


@dataclass(frozen=True, slots=True)
class _Lock:
    """The lock that this audit holds.

    Args:
        before: the locks whose place it took, the first `.lock`, and their text.
        path: of its own.
        text: that it wrote there.
        successor: which another one makes that takes its place.
    """

    output: HadoopPath
    before: tuple[tuple[HadoopPath, str], ...]
    path: HadoopPath
    text: str
    successor: HadoopPath

    def is_held(self) -> bool:
        """Whether it is as it was made, and has no successor."""
        mine = (*self.before, (self.path, self.text))
        return all(_says(path) == text for path, text in mine) and not self.successor.exists()

    def is_begun(self) -> bool:
        """Whether the locks whose place it takes are still the ones that were found."""
        return all(_says(path) == text for path, text in self.before)

    def give_back(self) -> None:
        """Remove it, where it is still ours."""
        if not self.is_held():
            return
        mine = (*(path for path, _ in self.before), self.path)
        # While it is held nobody else makes a file of this name that anything leads to.
        for one in self.output.glob(f"{_LOCK}-*"):
            if one not in (*mine, self.successor):
                one.remove()
        for one in mine:
            one.remove()


# Those of this process.
_HELD: list[_Lock] = []


@contextmanager
def alone(output: HadoopPath, *, unlock: str = "") -> Iterator[None]:
    """Hold the lock of an output folder."""
    try:
        lock = _made(output, unlock)
    except OSError as error:
        raise NotAvailable(f"{output} cannot be written: {error.strerror or error}") from error
    _HELD.append(lock)
    try:
        yield
    finally:
        _HELD.remove(lock)
        # Where it cannot be removed, it says who had it.
        with suppress(OSError):
            lock.give_back()


def require_held(place: HadoopPath) -> None:
    """Return when this process still has the lock of the folder in which a place lies."""
    for lock in _HELD:
        if f"{place}/".startswith(f"{lock.output}/") and not lock.is_held():
            raise NotAvailable(
                f"{lock.path} was taken away while this audit ran: another one may have run beside "
                "it; run it again"
            )


def _made(output: HadoopPath, unlock: str) -> _Lock:
    own = Holder.here(output.java_pid)
    path, text = output / _LOCK, own.as_text()
    before: list[tuple[HadoopPath, str]] = []
    may_make = True
    while not (may_make and _is_made(path, text)):
        found = _says(path)
        holder = Holder.of_text(found) if found else None
        if found is None or holder is None:
            raise _unclear(output, path)
        before.append((path, found))
        may_make = holder.is_gone or holder.id == unlock
        place, path = path, _successor(output, holder)
        # Of one that has a successor it was decided before.
        if not may_make and not path.exists():
            raise _refused(output, place, holder)
    lock = _Lock(output, tuple(before), path, text, _successor(output, own))
    is_begun = False
    try:
        is_begun = lock.is_begun()
    finally:
        if not is_begun:
            with suppress(OSError):
                path.remove()
    if not is_begun:
        raise NotAvailable(f"another audit begins to write to {output}: wait until it ends")
    for found_at, _ in before:
        _LOG.warning("audit.lock_taken_over", path=found_at)
    return lock


def _successor(output: HadoopPath, holder: Holder) -> HadoopPath:
    return output / f"{_LOCK}-{holder.id}"


def _is_made(path: HadoopPath, text: str) -> bool:
    try:
        path.make_once(text)
    except FileExistsError:
        return False
    return True


def _says(path: HadoopPath) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _refused(output: HadoopPath, path: HadoopPath, holder: Holder) -> NotAvailable:
    return NotAvailable(
        f"another audit writes to {output} by {path}: {holder}. Wait until it ends; if it was "
        f"killed, run this command again with --unlock {holder.id}"
    )


def _unclear(output: HadoopPath, path: HadoopPath) -> NotAvailable:
    return NotAvailable(
        f"another audit writes to {output}: it has just made or removed {path}. Wait until it "
        f"ends; if none runs, remove what a dead one left: hadoop fs -rm {path}"
    )
