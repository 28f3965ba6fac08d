"""Redis on a port of its own; nothing is written to disk unless it is asked for."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import redis

from onceward.servers.keeper import ServerCommand
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port


@dataclass(frozen=True, slots=True)
class Redis:
    """One Redis server; with `keeps_data` a killed one comes back with all it had answered."""

    kind: ClassVar[str] = "redis"

    port: int = field(default_factory=free_port)
    name: str = "redis"
    ready_within_s: float = 20.0
    keeps_data: bool = False

    @property
    def address(self) -> str:
        """URL of its first database."""
        return f"redis://{HOST}:{self.port}/0"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Nothing to prepare."""
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command; a stop has nothing to save."""
        appends = "yes" if self.keeps_data else "no"
        options = ("--bind", HOST, "--port", str(self.port), "--dir", str(folder))
        argv = (program("redis-server"), *options, "--appendonly", appends, "--save", "")
        return ServerCommand(argv=argv, folder=folder, log=folder / "redis.log")

    def answers(self, folder: Path) -> bool:
        """Say whether it answers, and from this folder."""
        client = redis.Redis(host=HOST, port=self.port, socket_timeout=2.0)
        try:
            client.ping()
            return bool(client.config_get("dir")["dir"] == str(folder))
        except redis.RedisError:
            return False
        finally:
            client.close()
