"""A peer: another product's worker and client, in an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.bench.launching import running
from tests.bench.systems.environments import pinned, python_of
from tests.bench.systems.trial import Trial, server_meters
from tests.stack import Servers

Opened = Callable[[Servers], AbstractContextManager[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One product, with its default settings.

    Attributes:
        product: the name of its package and of its lock file.
        worker: arguments of its interpreter that run the worker.
        client: module of the submitting process.
        server: the part among the servers that it uses, by name.
        opened: makes the places of one trial; yields the variables that name them.
        settings: what is measured, for people.
        promise: how an end is seen, and what becomes of a request whose worker is killed.
    """

    product: str
    worker: Sequence[str]
    client: str
    server: str
    opened: Opened
    settings: str
    promise: str

    def settings_text(self) -> str:
        """Return version and settings that are measured, for people."""
        return f"{self.product} {pinned(self.product)}, {self.settings}"

    @contextmanager
    def run(self, servers: Servers, *, folder: Path) -> Iterator[Trial]:
        """Yield a worker with its submitting process.

        Args:
            folder: for the logs of this trial.

        Raises:
            BenchError: the product cannot be installed.
        """
        python = str(python_of(self.product))
        with ExitStack() as opened:
            environ = {**os.environ, **opened.enter_context(self.opened(servers))}
            worker = opened.enter_context(
                running((python, *self.worker), environ=environ, log=folder / "worker.log")
            )
            submitting = opened.enter_context(
                running(
                    (python, "-m", self.client),
                    environ=environ,
                    log=folder / "client.log",
                    talks=True,
                )
            )
            meters = server_meters(servers)
            used = {name: meter for name, meter in meters.items() if name == self.server}
            yield Trial(worker=worker, submitting=submitting, servers=used)


def redis_databases(*, broker: int, results: int) -> Opened:
    """Return what names two databases of our Redis, one for messages and one for results."""

    @contextmanager
    def opened(servers: Servers) -> Iterator[Mapping[str, str]]:
        yield {
            "BENCH_BROKER": with_database(servers.redis, broker),
            "BENCH_RESULTS": with_database(servers.redis, results),
        }

    return opened


def with_database(url: str, number: int) -> str:
    """Return the URL of another database of the same Redis.

    >>> with_database("redis://127.0.0.1:6379/0", 2)
    'redis://127.0.0.1:6379/2'
    """
    return urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
