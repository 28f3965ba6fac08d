"""Tests of handlers without servers: a handler runs through the worker's own decisions.

`bench` is the worker: its real loop, the real journal (SQLite in memory, `memory`) and the real
status script (fakeredis). Only the pool is another one: `threads` runs the handler in a thread, and
lets it die at a point (`deaths`). `counterparty` is the outside system, and counts. `safety` dies
at every point, sends again, and says whether anything happened twice.

What it does not cover is refused by name: `delivery=` other than at_most_once, `order="key"`,
`collapse=`, `retries=` and handlers of dead letters.

Not obvious: a thread that dies stays where it is until the program ends, so no `finally` of the
handler runs, as after a kill. A transactional run is undone instead: its connection was rolled back.
"""

from onceward.testing.bench import Bench, NotCovered, BenchOutcome
from onceward.testing.counterparty import Counterparty, KeyRefused
from onceward.testing.deaths import NeverReached, Point
from onceward.testing.safety import RanTwice, assert_safe

__all__ = [
    "Bench",
    "Counterparty",
    "KeyRefused",
    "NeverReached",
    "NotCovered",
    "Point",
    "RanTwice",
    "BenchOutcome",
    "assert_safe",
]
