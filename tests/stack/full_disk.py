"""A file system of a few pages that is really full when it is full, and gone with who uses it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_MOUNTED = 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && exec "$@"'


def on_small_disk(
    command: Sequence[str],
    folder: Path,
    *,
    size_bytes: int,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, for which `folder` is a new file system with so much room.

    It is mounted in a namespace of the command's own, so nothing is left mounted however it ends.
    Who is not root does so in a user namespace.
    """
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    mounted = ["sh", "-c", _MOUNTED, "sh", str(size_bytes), str(folder), *command]
    return subprocess.run(
        ["unshare", "--mount", *as_root, *mounted],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def fill(disk: Path, *, but_bytes: int) -> Path:
    """Write a file that leaves only so much room, and return it."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - but_bytes)
    return ballast
