"""Whether benches are on real servers, and on which."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onceward.testing.real.servers import RealServers

_current: list[RealServers] = []


def real_servers() -> RealServers | None:
    """Return the servers of all benches; None where they run in memory."""
    return _current[-1] if _current else None


def switch_on(servers: RealServers) -> None:
    """Let all benches run on these from now on."""
    _current.append(servers)


def switch_off() -> None:
    """Let benches run in memory again."""
    _current.pop()
