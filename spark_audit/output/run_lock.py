"""The lock of an output folder: one audit at a time, since each reads the files of those before."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from feedback.errors import NotAvailable
from feedback.files import OWNER_ONLY
from spark_audit.output import hadoop_lock
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.location import Location, local


def alone(output: Location, *, unlock: str = "") -> AbstractContextManager[None]:
    """Hold the lock of an output folder, which is made where it is missing.

    On this machine the system gives it back when this process ends, however it does; elsewhere a
    process that is killed leaves it, see `hadoop_lock`.

    Args:
        unlock: the id of a holder that was killed and left its lock, as the refusal names it.

    Raises:
        NotAvailable: another audit has it, or the folder cannot be made.
    """
    if isinstance(output, HadoopPath):
        return hadoop_lock.alone(output, unlock=unlock)
    return _alone(local(output))


@contextmanager
def _alone(output: Path) -> Iterator[None]:
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = os.open(output / ".lock", os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    except OSError as error:
        raise NotAvailable(f"{output} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotAvailable(f"another audit writes to {output}: wait until it ends") from error
        yield
    finally:
        os.close(lock)
