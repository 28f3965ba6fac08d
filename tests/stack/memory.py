"""Temporary files in memory: a run of all tests makes very many, and none outlives it.

On a disk each commit of a journal waits for it, which costs processor time as well. A test kills
processes and never the machine, so that memory forgets nothing that a disk would keep.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")
# Six times the most that a run of all tests has had there at once.
ROOM_BYTES = 4 << 30


def memory_folder(folder: Path = SHARED, *, room_bytes: int = ROOM_BYTES) -> Path | None:
    """Return a folder in memory that serves as `/tmp` does, None where there is none.

    Args:
        folder: where a file system in memory may be mounted.
        room_bytes: so much must be free, of it and of the machine's memory.
    """
    if not os.path.ismount(folder) or not os.access(folder, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(folder)
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    # Some tests run programs that they have made.
    return None if found.f_flag & os.ST_NOEXEC or room < room_bytes else folder


@contextmanager
def temporary_files_in(folder: Path | None) -> Iterator[None]:
    """Let this process and those that it starts have new temporary files there, within the block.

    A folder that the environment names (`TMPDIR`) stays.
    """
    if folder is None or "TMPDIR" in os.environ:
        yield
        return
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        tempfile.tempdir = None


def temporary_folder_in(folder: Path) -> Path:
    """Make a folder in which anybody may have temporary files, as in `/tmp`, and return it.

    Its name is short: a socket's address takes 107 bytes.
    """
    made = folder / "t"
    made.mkdir()
    made.chmod(0o1777)
    return made
