"""Our side of a submitting process: order a case, await its answer, notice who died meanwhile."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from feedback.clock import monotonic_s
from tests.bench.errors import BenchError
from tests.bench.plan import Case

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What the submitting process saw of one case."""

    requests: int
    seconds: float
    took_ms: Sequence[float]

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Return the answer that a line of JSON holds."""
        fields = json.loads(line)
        return cls(fields["requests"], fields["seconds"], fields["took_ms"])


def ask(
    submitting: subprocess.Popen[bytes],
    case: Case,
    *,
    count: int,
    seconds: float,
    timeout_s: float,
    watched_pid: int,
) -> Answer:
    """Have a case submitted and return what was seen.

    Args:
        count: requests of a burst.
        seconds: length of an open loop.
        watched_pid: the worker; without it no answer would ever come.

    Raises:
        BenchError: one of the two processes ended, or there was no answer within `timeout_s`.
    """
    order = {"rate_per_s": case.rate_per_s, "count": count, "seconds": seconds}
    assert submitting.stdin is not None
    assert submitting.stdout is not None
    submitting.stdin.write(json.dumps(order).encode() + b"\n")
    submitting.stdin.flush()
    with ExitStack() as opened:
        worker = os.pidfd_open(watched_pid)
        opened.callback(os.close, worker)
        deadline_s = monotonic_s() + timeout_s
        line = _line(submitting.stdout.fileno(), worker=worker, deadline_s=deadline_s)
    return Answer.decode(line)


def _line(answers: int, *, worker: int, deadline_s: float) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        left_s = max(0.0, deadline_s - monotonic_s())
        ready, _, _ = select.select([answers, worker], [], [], left_s)
        if not ready:
            raise BenchError("no answer of the submitting process in time")
        if answers not in ready:
            ended = os.waitid(os.P_PIDFD, worker, os.WEXITED | os.WNOWAIT)
            code = ended.si_status if ended else "unknown"
            raise BenchError(f"the worker ended with {code} while requests were under way")
        chunk = os.read(answers, CHUNK_BYTES)
        if not chunk:
            raise BenchError("the submitting process ended before it answered")
        received += chunk
    return received
