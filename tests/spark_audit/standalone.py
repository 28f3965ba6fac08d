"""A standalone cluster of Spark of one's own: a real master and real workers, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyspark
import requests

from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from tests.kit.packages import install_missing

SPARK = Path(pyspark.__file__).parent
EXECUTOR_MIB = 512
READY_LIMIT_S = 60.0
ANSWER_LIMIT_S = 5.0
# A port that is taken is an error and not the next one: clients are told this one.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.port.maxRetries=0"
_ENVIRONMENT = (
    f"SPARK_HOME={SPARK}",
    f"SPARK_LOCAL_IP={HOST}",
    "SPARK_DAEMON_MEMORY=256m",
    f"SPARK_DAEMON_JAVA_OPTS={_JVM}",
)


@dataclass(frozen=True, slots=True)
class Master:
    """The master, which knows the workers and gives them out."""

    kind: ClassVar[str] = "spark"

    port: int = field(default_factory=free_port)
    page_port: int = field(default_factory=free_port)
    name: str = "spark-master"
    ready_within_s: float = READY_LIMIT_S

    @property
    def address(self) -> str:
        """What `spark-submit` is told."""
        return f"spark://{HOST}:{self.port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Nothing to prepare."""
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the master's command."""
        options = ("--port", str(self.port), "--webui-port", str(self.page_port))
        return _daemon(folder, "master.Master", *options)

    def answers(self, folder: Path) -> bool:
        """Say whether it answers, under its own address."""
        return self.state().get("url") == self.address

    def state(self) -> dict[str, Any]:
        """Return what its page says; nothing while it has none."""
        return _state(self.page_port)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker with one core; executors run in its folder."""

    kind: ClassVar[str] = "spark"

    master: Master
    name: str = "spark-worker"
    page_port: int = field(default_factory=free_port)
    ready_within_s: float = READY_LIMIT_S

    @property
    def address(self) -> str:
        """Its page."""
        return f"http://{HOST}:{self.page_port}"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write where executors put what they shuffle."""
        (folder / "worker.conf").write_text(f"spark.local.dir {folder}\n")
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the worker's command."""
        room = ("--cores", "1", "--memory", f"{EXECUTOR_MIB}m")
        places = ("--work-dir", str(folder), "--properties-file", str(folder / "worker.conf"))
        page = ("--webui-port", str(self.page_port))
        return _daemon(folder, "worker.Worker", *room, *places, *page, self.master.address)

    def answers(self, folder: Path) -> bool:
        """Say whether the master counts on it."""
        known = self.master.state().get("workers", ())
        return any(one["webuiaddress"] == self.address and one["state"] == "ALIVE" for one in known)


@contextmanager
def standalone(workers: int) -> Iterator[Master]:
    """Yield a master that has so many workers; all end with the block.

    Raises:
        StackError: one did not start.
    """
    install_missing(["java"])
    with Keeper() as keeper:
        master = launch(keeper, Master).server
        assert isinstance(master, Master)
        for number in range(workers):
            launch(keeper, partial(Worker, master, f"spark-worker-{number}"))
        yield master


def _daemon(folder: Path, name: str, *options: str) -> ServerCommand:
    start = ("env", *_ENVIRONMENT, str(SPARK / "bin" / "spark-class"))
    argv = (*start, f"org.apache.spark.deploy.{name}", "--host", HOST, *options)
    return ServerCommand(argv=argv, folder=folder, log=folder / "spark.log")


def _state(port: int) -> dict[str, Any]:
    try:
        answer = requests.get(f"http://{HOST}:{port}/json/", timeout=ANSWER_LIMIT_S)
        found: dict[str, Any] = answer.json()
    except requests.RequestException:
        return {}
    return found
