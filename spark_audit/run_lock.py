"""The lock of an output folder: one audit at a time, since each reads what others left there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedback.errors import NotAvailable


@contextmanager
def alone(output: Path) -> Iterator[None]:
    """Hold the lock of an output folder, which is made where it is missing.

    The system gives it back when this process ends, however it does.

    Args:
        output: `[audit] output`.

    Raises:
        NotAvailable: another audit has it, or the folder cannot be made.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = os.open(output / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
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
