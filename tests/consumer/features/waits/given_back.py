"""A worker that ends in order, and gives back what it has not begun."""

from __future__ import annotations

import json
import signal
from typing import Any

from tests.consumer.features.waits.topics import unfinished
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.stack import Servers

WORKER: dict[str, Any] = {"processes": 1, "buffer_limit": 4}


def give_back(stage: Stage, servers: Servers) -> list[str]:
    """Have a worker with `WORKER` read requests and end, and return their ids: the first has run,
    the others it has given back."""
    gate = stage.gate()
    worker = stage.start()
    body = json.dumps({"gate": str(gate.path)}).encode()
    ids = [f"id-{number}" for number in range(4)]
    for name in ids:
        stage.produce(body, headers=identity(name), handler="parked", partition=0)
    eventually(lambda: len(unfinished(servers, stage, "parked")) == 4, what="all are held")
    worker.send(signal.SIGTERM)
    worker.told("requests.given_up")
    gate.open()
    assert worker.wait() == 0
    return ids
