"""Starting one server: prepare, start, await its answer, and again when its port was taken."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onceward.servers.errors import StackError, tail
from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.polling import eventually

ATTEMPTS = 3
PREPARE_LIMIT_S = 60.0
# Redis, PostgreSQL and the JVM all say so, in any case of letters.
PORT_TAKEN = "address already in use"


class Server(Protocol):
    """One server on ports of its own, not started yet."""

    @property
    def kind(self) -> str:
        """The kind of server: it names the programs that must be installed."""

    @property
    def name(self) -> str: ...

    @property
    def ready_within_s(self) -> float: ...

    @property
    def address(self) -> str:
        """The address that clients are told: host and port, or a URL."""

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write the settings into `folder`, return the commands that must end before the start."""

    def command(self, folder: Path) -> ServerCommand:
        """Return the command that is the server."""

    def answers(self, folder: Path) -> bool:
        """Say whether the server of this `folder`, and no other on its port, answers a client."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answered, and where its data and log lie."""

    server: Server
    folder: Path
    pid: int

    @property
    def name(self) -> str:
        """Name of the server."""
        return self.server.name

    @property
    def address(self) -> str:
        """The address that clients are told."""
        return self.server.address


def launch(keeper: Keeper, choose: Callable[[], Server]) -> RunningServer:
    """Start the server that `choose` returns, with new ports when one was taken meanwhile.

    Raises:
        StackError: it exited or did not answer in time; ends with the last lines of its log.
    """
    attempt = 1
    while True:
        server = choose()
        folder = Path(tempfile.mkdtemp(prefix=f"{server.name}-", dir=keeper.folder))
        for step in server.prepare(folder):
            keeper.run(step, timeout_s=PREPARE_LIMIT_S)
        try:
            return launch_in(keeper, server, folder)
        except StackError:
            attempt += 1
            if attempt > ATTEMPTS or PORT_TAKEN not in _read(server.command(folder).log):
                raise


def launch_in(keeper: Keeper, server: Server, folder: Path) -> RunningServer:
    """Start a server on a folder that is prepared, and return when it answers.

    Raises:
        StackError: it exited or did not answer in time; it is stopped.
    """
    pid = keeper.start(server.command(folder))
    try:
        _await(keeper, server, folder, pid)
    except StackError:
        keeper.stop(pid)
        raise
    return RunningServer(server=server, folder=folder, pid=pid)


def _await(keeper: Keeper, server: Server, folder: Path, pid: int) -> None:
    def ready() -> bool:
        if (code := keeper.exit_code(pid)) is not None:
            log = tail(server.command(folder).log)
            raise StackError(f"{server.name} exited with code {code} while starting", log)
        return server.answers(folder)

    try:
        eventually(ready, timeout_s=server.ready_within_s, interval_s=0.05, what=server.name)
    except TimeoutError as error:
        log = tail(server.command(folder).log)
        limit = f"{server.ready_within_s:g} s"
        raise StackError(f"{server.name} did not answer within {limit}", log) from error


def _read(log: Path) -> str:
    return log.read_text(errors="replace").lower()
