"""A system that runs and can be given cases."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from tests.bench.measure.cost import Meters
from tests.bench.measure.processes import (
    below_cpu_s,
    listening_pid,
    own_cpu_s,
    tree_cpu_s,
    tree_pss_mib,
)
from tests.stack import Servers


@dataclass(frozen=True, slots=True)
class Trial:
    """One system of one round, with its worker and its submitting process.

    Attributes:
        servers: the parts among the servers that it uses, by name.
    """

    worker: subprocess.Popen[bytes]
    submitting: subprocess.Popen[bytes]
    servers: Meters

    @property
    def parts(self) -> Meters:
        """A CPU meter for each part."""
        return {
            "client": partial(tree_cpu_s, self.submitting.pid),
            "worker": partial(own_cpu_s, self.worker.pid),
            "children": partial(below_cpu_s, self.worker.pid),
            **self.servers,
        }

    def memory_mib(self) -> float:
        """Return the memory of the worker and its children."""
        return tree_pss_mib(self.worker.pid)


def server_meters(servers: Servers) -> dict[str, Callable[[], float]]:
    """Return a CPU meter for each server that runs on this machine: broker, redis, postgres."""
    addresses = {
        "broker": f"//{servers.kafka.split(',')[0]}",
        "redis": servers.redis,
        "postgres": servers.postgres,
    }
    ports = {name: urlsplit(address).port for name, address in addresses.items()}
    pids = {name: listening_pid(port) for name, port in ports.items() if port is not None}
    return {name: partial(tree_cpu_s, pid) for name, pid in pids.items() if pid is not None}
