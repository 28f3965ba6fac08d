"""The stack: those servers started that were asked for and that the environment does not give."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import RunningServer, Server, launch
from onceward.servers.redis import Redis
from tests.stack.installing import install
from tests.stack.postgres import Postgres
from tests.stack.servers import Servers

KINDS: dict[str, Callable[[], Server]] = {
    "kafka": Broker,
    "redis": Redis,
    "postgres": Postgres,
}

# Autovacuum would choose at any moment which index a test's statement takes, and JIT compiles what
# a test makes dear on purpose.
STILL = {"autovacuum": "off", "jit": "off"}


class Stack:
    """Real servers on loopback ports of their own, with their data in one temporary folder.

    They end with the `with` block, and no later than this process, however that ends.
    """

    def __init__(
        self, *, servers: Servers, running: Mapping[str, RunningServer], keeper: Keeper | None
    ) -> None:
        self.servers = servers
        self.running = running
        self._keeper = keeper

    @classmethod
    def start(
        cls,
        *,
        kafka: bool = True,
        redis: bool = True,
        postgres: bool = True,
        environ: Mapping[str, str] = os.environ,
        full_jit: bool = False,
    ) -> Self:
        """Start the servers asked for, side by side, and return when each answers a client.

        One that `environ` names is taken as it is and not started.

        Args:
            full_jit: for long uses, as a benchmark. The broker serves more, and takes more of the
                processor to come to that; PostgreSQL looks after its tables.

        Raises:
            StackError: a server is not installed or did not start; nothing is left running.
        """
        asked = {"kafka": kafka, "redis": redis, "postgres": postgres}
        given = Servers.of_environment(environ)
        addresses = {kind: getattr(given, kind) for kind, wanted in asked.items() if wanted}
        missing = [kind for kind, address in addresses.items() if not address]
        if not missing:
            return cls(servers=Servers(**addresses), running={}, keeper=None)
        install(missing)
        keeper = Keeper()
        try:
            kinds = KINDS | {"kafka": partial(Broker, full_jit=full_jit)}
            if not full_jit:
                kinds["postgres"] = partial(Postgres, settings=STILL)
            running = _launch_all(keeper, {kind: kinds[kind] for kind in missing})
        except BaseException:
            keeper.close()
            raise
        started = {kind: server.address for kind, server in running.items()}
        return cls(servers=Servers(**addresses | started), running=running, keeper=keeper)

    @property
    def folder(self) -> Path | None:
        """Where the servers' data and logs lie; None when nothing had to be started."""
        return None if self._keeper is None else self._keeper.folder

    def __enter__(self) -> Servers:
        return self.servers

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what was started and remove its folder."""
        if self._keeper is not None:
            self._keeper.close()


def _launch_all(
    keeper: Keeper, kinds: Mapping[str, Callable[[], Server]]
) -> dict[str, RunningServer]:
    threads = ThreadPoolExecutor(max_workers=len(kinds), thread_name_prefix="stack")
    try:
        launches = {kind: threads.submit(launch, keeper, make) for kind, make in kinds.items()}
        ended, _ = wait(launches.values(), return_when=FIRST_EXCEPTION)
        for each in ended:
            each.result()
        return {kind: each.result() for kind, each in launches.items()}
    except BaseException:
        # Without a keeper the other launches fail at their next question instead of waiting on.
        keeper.close()
        raise
    finally:
        threads.shutdown()
