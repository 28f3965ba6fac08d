"""Folders that are there whole or not at all, and the lock, on a file system of Hadoop's.

An object store cannot rename a folder and cannot lock. So nothing is renamed: what belongs into a
folder lies in a folder of its run, `run=1`, `run=2`, and counts from the moment in which its last
file is there, an empty one. If a process dies

- before that file, the folder is what it was before: the half of a run is never read, and the next
  run in that folder removes it;
- after it, the folder is the new one. The older run goes at once, or with the next run; its last
  file goes first, so that a half of it is never taken for a whole one.

The lock is a file that only one of several can make. Whoever made it removes it; of a process that
was killed it stays, and a person removes it: no clock says that an audit is dead. If that person
was wrong, the audit that lives is told before anything more of it counts.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from feedback.clock import epoch_ms
from feedback.errors import NotAvailable
from spark_audit.hadoop_path import HadoopPath
from spark_audit.texts import iso

_RUN = "run="
_WHOLE = "_WHOLE"
_LOCK = ".lock"
# The locks that this process has made, and what it wrote into them.
_HELD: dict[HadoopPath, str] = {}


@contextmanager
def replacing(folder: HadoopPath) -> Iterator[HadoopPath]:
    """Yield a folder for a new run, which is `folder` when the block ends well.

    Raises:
        NotAvailable: the file system refuses; what stood there before stands there still.
    """
    try:
        runs = _runs(folder)
        before = _newest(runs)
        _remove(one for one in runs if one != before)
        new = folder / f"{_RUN}{1 + max(map(_number, runs), default=0)}"
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        yield new
        _require_held(folder)
        (new / _WHOLE).write_text("")
    except OSError as error:
        _give_up(new)
        raise _refused(folder, error) from error
    except BaseException:
        _give_up(new)
        raise
    if before is not None:
        # It is nobody's any more; where it stays, the next run removes it.
        _give_up(before)


def settled(folder: HadoopPath) -> HadoopPath | None:
    """Return where what belongs into a folder lies whole; None where it does not."""
    return _newest(_runs(folder))


def content_of(folder: HadoopPath) -> Iterator[HadoopPath]:
    """Yield what was put into a folder, but not the file that makes it whole."""
    run = settled(folder)
    yield from (one for one in run.iterdir() if one.name != _WHOLE) if run else ()


@contextmanager
def alone(output: HadoopPath) -> Iterator[None]:
    """Hold the lock of an output folder.

    Raises:
        NotAvailable: another audit has it, or has left it, or the file system refuses.
    """
    lock = output / _LOCK
    own = _claim()
    try:
        with lock.new_file() as file:
            file.write(own)
    except FileExistsError as error:
        raise NotAvailable(
            f"another audit writes to {output}{_holder(lock)}: wait until it ends; if it was "
            f"killed, remove {lock}"
        ) from error
    except OSError as error:
        raise _refused(output, error) from error
    _HELD[lock] = own
    try:
        yield
    finally:
        del _HELD[lock]
        # Where it cannot be removed it says who had it.
        with suppress(OSError):
            if lock.read_text() == own:
                lock.remove()


def _require_held(folder: HadoopPath) -> None:
    for lock, own in _HELD.items():
        if str(folder).startswith(f"{lock.parent}/") and not _is(lock, own):
            raise NotAvailable(
                f"{lock} was taken away while this audit ran: another one may have run beside it; "
                "run it again"
            )


def _is(lock: HadoopPath, own: str) -> bool:
    try:
        return lock.read_text() == own
    except FileNotFoundError:
        return False


def _claim() -> str:
    return json.dumps(
        {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "since": iso(epoch_ms()),
            "id": uuid.uuid4().hex,
        }
    )


def _holder(lock: HadoopPath) -> str:
    try:
        found = json.loads(lock.read_text())
        return f" (process {found['process']} of {found['host']}, since {found['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        # Gone meanwhile, or being written.
        return ""


def _runs(folder: HadoopPath) -> list[HadoopPath]:
    """Return the folders of all runs, the older first."""
    found = [one for one in folder.glob(f"{_RUN}*") if one.name.removeprefix(_RUN).isdecimal()]
    return sorted(found, key=_number)


def _newest(runs: list[HadoopPath]) -> HadoopPath | None:
    return next((one for one in reversed(runs) if (one / _WHOLE).is_file()), None)


def _number(run: HadoopPath) -> int:
    return int(run.name.removeprefix(_RUN))


def _remove(runs: Iterator[HadoopPath]) -> None:
    for one in runs:
        (one / _WHOLE).remove()
        one.remove()


def _give_up(run: HadoopPath) -> None:
    # What cannot be removed is not read either.
    with suppress(OSError):
        _remove(iter([run]))


def _refused(place: HadoopPath, error: OSError) -> NotAvailable:
    return NotAvailable(f"{place} cannot be written: {error.strerror or error}")
