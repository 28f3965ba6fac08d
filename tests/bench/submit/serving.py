"""The loop of a submitting process: one line of JSON asks for a case, one answers it.

Runs in the environment of the system under test, so it imports the standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Protocol

from tests.bench.plan import PAYLOAD_BYTES
from tests.bench.submit.open_loop import open_loop


class Submitter(Protocol):
    """One system, as its client sees it. `one` is called by many threads."""

    def burst(self, count: int) -> None:
        """Submit as fast as possible; return when the last is seen to have succeeded."""

    def one(self) -> None:
        """Submit one request; return when it is seen to have succeeded."""


def payload() -> dict[str, Any]:
    """Return a payload of 1 KiB as compact JSON."""
    empty = len(json.dumps({"text": ""}, separators=(",", ":")))
    return {"text": "x" * (PAYLOAD_BYTES - empty)}


def serve(submitter: Submitter) -> None:
    """Answer orders from standard input until it ends."""
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(carry_out(submitter, json.loads(line))) + "\n")
        answers.flush()


def carry_out(submitter: Submitter, order: dict[str, Any]) -> dict[str, Any]:
    """Do one order: `count` requests at once, or `rate_per_s` for `seconds`.

    Returns:
        requests, the seconds from the first submit to the last seen final, and took_ms of each
        request where they were timed one by one.
    """
    began_s = time.monotonic()
    took_ms: list[float] = []
    if order["rate_per_s"] is None:
        requests = int(order["count"])
        submitter.burst(requests)
    else:
        rate_per_s, seconds = float(order["rate_per_s"]), float(order["seconds"])
        requests = int(rate_per_s * seconds)
        took_ms = open_loop(submitter.one, rate_per_s=rate_per_s, seconds=seconds)
    return {"requests": requests, "seconds": time.monotonic() - began_s, "took_ms": took_ms}
