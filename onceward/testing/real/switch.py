"""Whether benches are on real servers, and on which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.testing.bench import Bench

if TYPE_CHECKING:
    from onceward.testing.real.servers import RealServers

_current: list[RealServers] = []


def real_servers() -> RealServers | None:
    """Return the servers of all benches; None where they run in memory."""
    return _current[-1] if _current else None


def switch_on(servers: RealServers, kind: type[Bench]) -> None:
    """Let all benches be of this kind, on these servers, from now on."""
    _current.append(servers)
    Bench.kinds.append(kind)


def switch_off() -> None:
    """Let benches run in memory again."""
    Bench.kinds.pop()
    _current.pop()
