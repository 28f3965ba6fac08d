"""Tests of handlers without servers: a handler runs through the worker's own decisions.

`bench` is the worker: its real loop, the real journal (SQLite in memory) and the real status script
(fakeredis; both `memory`). Only the pool is another one: `threads` runs the handler in a thread of
this process, and lets it die, or lose its journal, at a point (`deaths`) that the function tells
(`watched`). `counterparty` is the outside system, and counts. `safety` dies at every point, sends
again, and says whether anything happened twice. `bench_outcome` refuses by name what a bench cannot
run: `delivery=` other than at_most_once, `order="key"`, `collapse=`, `dead_letters_of=`. Retries
are decided as in a worker, and wait in `bench_retries` until a test lets time pass.

`memory_client` is a client for the tests of front-ends: the client's own rules of sends and waits
over a store in memory and a Kafka that keeps records (`memory_client`). The test says how a request
stands (`told`), or lets given handlers run it; `memory_async_client` is the same for asyncio.

`real/` is the same bench on real servers: a worker process whose children are killed, Kafka, Redis.
`service/` is a whole service in one process: the client, Kafka in memory, and the whole worker with
real children, so it covers all that a bench does not.

`onceward/pytest_plugin.py` has a bench and a client as fixtures, and `--onceward-real`. It lies
outside, since pytest imports it in every run, and this folder loads the worker.

Not covered by a bench either: Kafka, leases that end, and the death of a transactional run whose
commit is done and was not heard of. No lifespan is entered: a test gives its object by `using`.

Not obvious: the thread of a dead run stays where it is until its bench closes, so no `finally` of
the handler runs before; one that runs then calls a `Counterparty` in vain. A transactional run is
ended at once, with its connection rolled back. A handler that never returns holds its test.
"""

from typing import TYPE_CHECKING

from feedback.lazy import lazy_names

if TYPE_CHECKING:
    from onceward.testing.bench import Bench
    from onceward.testing.bench_outcome import BenchOutcome, NotCovered, NotReal
    from onceward.testing.counterparty import Counterparty, KeyRefused
    from onceward.testing.deaths import NeverReached, Point
    from onceward.testing.memory_async_client import MemoryAsyncClient
    from onceward.testing.memory_client import MemoryClient
    from onceward.testing.safety import RanTwice, assert_safe
    from onceward.testing.service.memory_service import MemoryService
    from onceward.testing.told import StatusRefused
else:
    # A real bench's children import the module of the test, and need a counterparty alone.
    _HOMES = {
        "onceward.testing.bench": ("Bench",),
        "onceward.testing.bench_outcome": ("BenchOutcome", "NotCovered", "NotReal"),
        "onceward.testing.counterparty": ("Counterparty", "KeyRefused"),
        "onceward.testing.deaths": ("NeverReached", "Point"),
        "onceward.testing.memory_async_client": ("MemoryAsyncClient",),
        "onceward.testing.memory_client": ("MemoryClient",),
        "onceward.testing.safety": ("RanTwice", "assert_safe"),
        "onceward.testing.service.memory_service": ("MemoryService",),
        "onceward.testing.told": ("StatusRefused",),
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "Bench",
    "BenchOutcome",
    "Counterparty",
    "KeyRefused",
    "MemoryAsyncClient",
    "MemoryClient",
    "MemoryService",
    "NeverReached",
    "NotCovered",
    "NotReal",
    "Point",
    "RanTwice",
    "StatusRefused",
    "assert_safe",
]
