"""What the kernel knows of processes: CPU seconds, memory, and who listens on a port."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil

MIB = 1024 * 1024


def own_cpu_s(pid: int) -> float:
    """Return the CPU seconds of one process, without its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def below_cpu_s(pid: int) -> float:
    """Return the CPU seconds of all its descendants, those that ended and were reaped included."""
    seconds = _reaped_cpu_s(psutil.Process(pid))
    for child in _descendants(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += own_cpu_s(child.pid) + _reaped_cpu_s(child)
    return seconds


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants."""
    return own_cpu_s(pid) + below_cpu_s(pid)


def tree_pss_mib(pid: int) -> float:
    """Return the memory of a process and its descendants; shared pages count once (PSS)."""
    total_bytes = 0
    for process in (psutil.Process(pid), *_descendants(pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total_bytes += process.memory_full_info().pss
    return total_bytes / MIB


def machine_busy_s() -> float:
    """Return the CPU seconds that all cores were busy since boot.

    Time stolen by the host counts: it was not ours. Interrupts do not: what loopback traffic costs
    outside of any process cannot be told from anybody else's.
    """
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.steal)


def listening_pid(port: int) -> int | None:
    """Return the process that listens on a TCP port of this machine; None when none can be seen."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,):
            return connection.pid
    return None


def _descendants(pid: int) -> Iterator[psutil.Process]:
    yield from psutil.Process(pid).children(recursive=True)


def _reaped_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)
