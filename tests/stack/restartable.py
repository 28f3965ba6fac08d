"""A server of one test's own: stopped, killed, paused, and started again on its ports and data."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from onceward.servers.errors import StackError
from onceward.servers.keeper import Keeper
from onceward.servers.launch import RunningServer, Server, launch, launch_in
from tests.eventually import eventually
from tests.paused import paused
from tests.stack.installing import install

STOP_LIMIT_S = 60.0
GONE_LIMIT_S = 60.0


class Restartable:
    """One server on ports and a folder that it keeps; it ends with its keeper, however that is.

    Args:
        keeper: owns the process.
        choose: makes the server; asked again when a port was taken meanwhile.
    """

    def __init__(self, keeper: Keeper, choose: Callable[[], Server]) -> None:
        self._keeper = keeper
        self._running: RunningServer = launch(keeper, choose)
        self._is_up = True

    @property
    def address(self) -> str:
        """Where it is, also while it is down: host and port, or a URL."""
        return self._running.address

    @property
    def folder(self) -> Path:
        """Its folder, with its data."""
        return self._running.folder

    @property
    def log(self) -> str:
        """What it has logged so far, over all its starts."""
        command = self._running.server.command(self._running.folder)
        return command.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The process id of its main process; another one after each start."""
        return self._running.pid

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._is_up

    def stop(self) -> None:
        """Stop it in order, as an operator does, and return when it is gone.

        Raises:
            TimeoutError: it did not end by itself.
        """
        command = self._running.server.command(self._running.folder)
        self._end(command.orderly_signal, STOP_LIMIT_S)

    def kill(self) -> None:
        """Kill all its processes, and return when they are gone."""
        family = self._family()
        # The main process first: it must not clean up after the others.
        self._end(signal.SIGKILL, GONE_LIMIT_S)
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        eventually(lambda: not any(map(_runs, family)), timeout_s=GONE_LIMIT_S)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still for the length of the block: connections stay open, nothing is answered."""
        with ExitStack() as stopped:
            stopped.enter_context(paused(self.pid))
            for one in self._family():
                if _runs(one):
                    stopped.enter_context(paused(one.pid, may_end=True))
            yield

    def start(self, *, empty: bool = False) -> None:
        """Start it again and return when it answers.

        Args:
            empty: throw its data away before.

        Raises:
            StackError: it runs already, or did not start.
        """
        if self._is_up:
            raise StackError(f"{self._running.name} runs already: stop or kill it first")
        server, folder = self._running.server, self._running.folder
        if empty:
            for one in folder.iterdir():
                shutil.rmtree(one) if one.is_dir() else one.unlink()
            for step in server.prepare(folder):
                self._keeper.run(step, timeout_s=GONE_LIMIT_S)
        self._running = launch_in(self._keeper, server, folder)
        self._is_up = True

    @contextmanager
    def down(self, *, empty: bool = False) -> Iterator[None]:
        """Be killed for the length of the block and run again after it, also when it fails."""
        self.kill()
        try:
            yield
        finally:
            self.start(empty=empty)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Be stopped in order for the length of the block and run again after it."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _end(self, number: int, limit_s: float) -> None:
        os.kill(self.pid, number)
        name = f"the end of {self._running.name}"
        eventually(
            lambda: self._keeper.exit_code(self.pid) is not None, timeout_s=limit_s, what=name
        )
        self._is_up = False

    def _family(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)


@contextmanager
def restartable(
    choose: Callable[[], Server], *, keeper: Keeper | None = None
) -> Iterator[Restartable]:
    """Yield a server of one's own that may fail; installed if need be, gone after the block.

    Args:
        choose: makes the server: a class such as `Redis`, or a function.
        keeper: one that is there already; else the server gets a keeper of its own.

    Raises:
        StackError: it is not installed or did not start.
    """
    install([choose().kind])
    if keeper is not None:
        yield Restartable(keeper, choose)
        return
    with Keeper() as own:
        yield Restartable(own, choose)


def _runs(process: psutil.Process) -> bool:
    # What a dead server left behind is the keeper's child, and a zombie until the keeper ends.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
