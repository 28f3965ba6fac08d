"""Who holds a lock, and whether that is over for sure.

The proof: the lock was made on this host, since its last start and among the processes that are
seen from here, and none of its processes is there any more. A process is one with its number and
its start, since numbers come back. A container that ran elsewhere, or a host that was started
anew, proves nothing: names of hosts and machines come back too, and a clock says of no process that
it will not go on.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from feedback.clock import epoch_ms
from spark_audit.output.formatting import iso

_PROC = Path("/proc")
# The fields of `/proc/PID/stat` behind the name, which may hold anything: the state, and the start.
_STATE, _START = 0, 19


@dataclass(frozen=True, slots=True)
class Holder:
    """The processes of one audit, and where they run.

    Args:
        id: its own; no two audits have the same.
        boot: the boot id of Linux; empty where it has no name for it.
        space: of process numbers, by which containers have their own.
        processes: number and start of each: of Python, and of Java, by which it writes.
        since: when it began, for a person.
    """

    id: str
    host: str
    boot: str
    space: int
    processes: tuple[tuple[int, int], ...]
    since: str

    @classmethod
    def here(cls, *pids: int) -> Self:
        """Return the audit of this process.

        Args:
            pids: of the other processes by which it writes.
        """
        starts = {pid: _started_at(pid) for pid in (os.getpid(), *pids)}
        return cls(
            id=uuid.uuid4().hex,
            host=socket.gethostname(),
            # Of processes whose start is not to be read nothing is ever proved.
            boot="" if None in starts.values() else _boot(),
            space=_space(),
            processes=tuple((pid, start or 0) for pid, start in starts.items()),
            since=iso(epoch_ms()),
        )

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """Return who wrote this; None where it does not say so, as while it is being written."""
        try:
            found = json.loads(text)
            pairs = tuple((int(pid), int(start)) for pid, start in found.pop("processes"))
            return cls(**found, processes=pairs)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def as_text(self) -> str:
        """Return the text of a lock."""
        return json.dumps(asdict(self))

    @property
    def is_gone(self) -> bool:
        """Whether none of its processes is there any more, for sure."""
        is_seen_from_here = (self.host, self.boot, self.space) == (
            socket.gethostname(),
            _boot(),
            _space(),
        )
        return bool(self.boot) and is_seen_from_here and not any(map(_is_there, self.processes))

    def __str__(self) -> str:
        return f"process {self.processes[0][0]} of {self.host}, since {self.since}"


def _is_there(process: tuple[int, int]) -> bool:
    pid, start = process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It is another user's, of whose processes this one may see nothing else.
        pass
    # One whose start is not to be read may be the same.
    return _started_at(pid) in (None, start) and not _is_reaped_by_nobody(pid)


def _started_at(pid: int) -> int | None:
    """Return when a process began, in Linux' ticks; None of one that ended, or is not seen."""
    found = _stat(pid)
    return int(found[_START]) if found else None


def _is_reaped_by_nobody(pid: int) -> bool:
    """Whether a process has ended, and only its parent has not asked how."""
    found = _stat(pid)
    try:
        threads = len(list((_PROC / str(pid) / "task").iterdir()))
    except OSError:
        return False
    # The first thread may have ended before the others.
    return bool(found) and found[_STATE] == "Z" and threads == 1


def _stat(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _space() -> int:
    return (_PROC / "self/ns/pid").stat().st_ino
