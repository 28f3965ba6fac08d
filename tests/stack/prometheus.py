"""Prometheus with a configuration of its own, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import requests

from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port
from tests.stack.installing import install

ANSWER_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One server, whose data lies in its folder.

    Attributes:
        settings: its `prometheus.yml`.
    """

    kind: ClassVar[str] = "prometheus"

    settings: Mapping[str, Any]
    port: int = field(default_factory=free_port)
    name: str = "prometheus"
    ready_within_s: float = 60.0

    @property
    def address(self) -> str:
        """The URL of its API and pages."""
        return f"http://{HOST}:{self.port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write its configuration."""
        (folder / "prometheus.yml").write_text(json.dumps(self.settings))  # JSON is YAML
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        return ServerCommand(
            argv=(
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={HOST}:{self.port}",
                "--log.level=warn",
            ),
            folder=folder,
            log=folder / "prometheus.log",
        )

    def answers(self, folder: Path) -> bool:
        """Say whether it is ready, and with this folder."""
        try:
            flags = requests.get(f"{self.address}/api/v1/status/flags", timeout=2).json()["data"]
            is_ready = requests.get(f"{self.address}/-/ready", timeout=2).ok
        except requests.RequestException:
            return False
        return is_ready and bool(flags["storage.tsdb.path"] == str(folder / "data"))


@contextmanager
def prometheus(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the URL of a Prometheus of its own.

    Raises:
        StackError: it is not installed or did not start.
    """
    install([Prometheus.kind])
    with Keeper() as keeper:
        yield launch(keeper, lambda: Prometheus(settings)).address


def asked(url: str, page: str, **parameters: str) -> Any:
    """Return the data of an answer of its API."""
    answer = requests.get(f"{url}/api/v1/{page}", params=parameters, timeout=ANSWER_LIMIT_S).json()
    assert answer["status"] == "success", (page, parameters, answer)
    return answer["data"]
