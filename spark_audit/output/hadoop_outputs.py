"""Folders that are there whole or not at all, on a file system of Hadoop's.

An object store cannot rename a folder. So nothing is renamed: the files of a folder lie in a folder
of the run, `run=1-…`, `run=2-…`, and count from the moment in which the last file is there, an
empty one. If a process dies

- before that file, the folder is what it was before: the half of a run is never read, and goes when
  the next run in that folder is whole;
- after it, the folder is the new one. Older runs go at once, or with the next run; the last file of
  each goes first, so that a half of it is never taken for a whole one.

No two runs write into one folder, also where an audit that was taken for dead goes on: each has a
name that nobody else gives, and nothing is removed of a run before a later one is whole. Whether it
may count is asked of the lock before it does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from spark_audit.output.hadoop_lock import require_held
from spark_audit.output.hadoop_path import HadoopPath

_RUN = "run="
_WHOLE = "_WHOLE"
# Of the name of a run's folder: enough that no two are alike.
_DIGITS = 8
_LOG = EventLog("onceward.audit")


@contextmanager
def replacing(folder: HadoopPath) -> Iterator[HadoopPath]:
    """Yield a folder for a new run, which is `folder` when the block ends well."""
    try:
        require_held(folder)
        before = _runs(folder)
        number = 1 + max(map(_number, before), default=0)
        new = folder / f"{_RUN}{number}-{uuid.uuid4().hex[:_DIGITS]}"
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        yield new
        require_held(folder)
        (new / _WHOLE).write_text("")
    except OSError as error:
        _give_up(new)
        raise _refused(folder, error) from error
    except BaseException:
        _give_up(new)
        raise
    for one in before:
        # It is nobody's any more; where it stays, the next run removes it.
        _give_up(one)


def settled(folder: HadoopPath) -> HadoopPath | None:
    """Return the folder of the whole run; None where there is none."""
    return _newest(_runs(folder))


def content_of(folder: HadoopPath) -> Iterator[HadoopPath]:
    """Yield the files of a folder, without the one that makes it whole."""
    run = settled(folder)
    yield from (one for one in run.iterdir() if one.name != _WHOLE) if run else ()


def _runs(folder: HadoopPath) -> list[HadoopPath]:
    """Return the folders of all runs, the older first."""
    found = [one for one in folder.glob(f"{_RUN}*") if _number(one)]
    return sorted(found, key=lambda one: (_number(one), one.name))


def _newest(runs: list[HadoopPath]) -> HadoopPath | None:
    return next((one for one in reversed(runs) if (one / _WHOLE).is_file()), None)


def _number(run: HadoopPath) -> int:
    """Return which run of its folder it is, from 1; 0 for another name."""
    number = run.name.removeprefix(_RUN).partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _give_up(run: HadoopPath) -> None:
    try:
        (run / _WHOLE).remove()
        run.remove()
    except OSError as error:
        # It is not read either: it costs room until the next run in its folder.
        _LOG.warning("audit.not_removed", path=run, reason=str(error.strerror or error))


def _refused(place: HadoopPath, error: OSError) -> NotAvailable:
    return NotAvailable(f"{place} cannot be written: {error.strerror or error}")
