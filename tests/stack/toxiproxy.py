"""Links that fail: Toxiproxy between a client and a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import requests

from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from tests.stack.installing import install
from tests.stack.toxiproxy_build import toxiproxy_program

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Toxiproxy:
    """One Toxiproxy server, its links are made through `Links`."""

    kind: ClassVar[str] = "toxiproxy"

    port: int = field(default_factory=free_port)
    name: str = "toxiproxy"
    ready_within_s: float = 20.0

    @property
    def address(self) -> str:
        """URL of its control port."""
        return f"http://{HOST}:{self.port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Nothing to prepare."""
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        argv = (str(toxiproxy_program()), "-host", HOST, "-port", str(self.port))
        return ServerCommand(argv=argv, folder=folder, log=folder / "toxiproxy.log")

    def answers(self, folder: Path) -> bool:
        """Say whether it answers, and has no links yet: another stack's would have some."""
        try:
            return bool(requests.get(f"{self.address}/proxies", timeout=TIMEOUT_S).json() == {})
        except requests.RequestException:
            return False


class Link:
    """One port that leads to one server, for as long as nothing is done to it."""

    def __init__(self, control: str, port: int, upstream: str) -> None:
        self.port = port
        self.address = f"{HOST}:{port}"
        self._control = control
        self._name = f"link-{port}"
        self._post(
            "/proxies",
            {"name": self._name, "listen": self.address, "upstream": upstream, "enabled": True},
        )

    def at(self, url: str) -> str:
        """Return the URL of the server with this link's address in place of its own.

        It keeps user, path and parameters: `postgresql+psycopg://postgres@127.0.0.1:PORT/journal`.
        """
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}{self.address}").geturl()

    @contextmanager
    def slow(self, latency_ms: int) -> Iterator[None]:
        """Deliver each answer `latency_ms` later than it came."""
        with self._toxic("latency", "downstream", latency=latency_ms):
            yield

    @contextmanager
    def half_open(self) -> Iterator[None]:
        """Accept everything and say nothing, also to those that connect meanwhile."""
        with self._toxic("timeout", "downstream", timeout=0):
            yield

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse connections; those that stand are closed."""
        self._post(f"/proxies/{self._name}", {"enabled": False})
        try:
            yield
        finally:
            self._post(f"/proxies/{self._name}", {"enabled": True})

    @contextmanager
    def resetting(self) -> Iterator[None]:
        """Reset (TCP RST) each connection, in place of the first answer that comes through it."""
        with self._toxic("reset_peer", "downstream", timeout=0):
            yield

    @contextmanager
    def _toxic(self, kind: str, stream: str, **attributes: int) -> Iterator[None]:
        path = f"/proxies/{self._name}/toxics"
        toxic = {"name": kind, "type": kind, "stream": stream, "attributes": attributes}
        self._post(path, toxic)
        try:
            yield
        finally:
            gone = requests.delete(f"{self._control}{path}/{kind}", timeout=TIMEOUT_S)
            gone.raise_for_status()

    def _post(self, path: str, body: dict[str, Any]) -> None:
        requests.post(f"{self._control}{path}", json=body, timeout=TIMEOUT_S).raise_for_status()


class Links:
    """Makes links; one Toxiproxy serves any number of them."""

    def __init__(self, keeper: Keeper) -> None:
        install([Toxiproxy.kind])
        self._control = launch(keeper, Toxiproxy).address

    def to(self, upstream: str, *, port: int | None = None) -> Link:
        """Return a new link.

        Args:
            upstream: host and port of the server, up or not, or its URL.
            port: where the link listens; a free port by default.
        """
        where = urlsplit(upstream).netloc.rpartition("@")[2] if "//" in upstream else upstream
        return Link(self._control, port or free_port(), where)
