"""A Redis of one test's own, to be killed and started again."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.eventually import eventually
from tests.stack.keeper import Keeper
from tests.stack.launch import launch
from tests.stack.redis import Redis


class OwnRedis:
    """One server on a port that it keeps; it forgets everything when it is killed."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._server = Redis()
        self._pid = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it is, also while it is down."""
        return self._server.address

    def start(self) -> None:
        """Start it and wait for its answer."""
        self._pid = launch(self._keeper, lambda: self._server).pid

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        os.kill(self._pid, signal.SIGKILL)
        eventually(lambda: self._keeper.exit_code(self._pid) is not None, timeout_s=10)


@contextmanager
def own_redis() -> Iterator[OwnRedis]:
    """Yield a server that is gone after the block."""
    with Keeper() as keeper:
        yield OwnRedis(keeper)
