"""The rights of files that the product makes where nothing else limits them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def everything_allowed() -> Iterator[None]:
    """Take away the umask, which limits the rights of new files, until the end of the block."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def rights(path: Path) -> int:
    """Return the rights of a file, as 0o600."""
    return stat.S_IMODE(path.stat().st_mode)
