"""The submitting process of Dramatiq: `python -m tests.bench.systems.dramatiq_client`."""

from __future__ import annotations

from dramatiq import group  # type: ignore[import-not-found]

from tests.bench.submit.serving import payload, serve
from tests.bench.systems.dramatiq_tasks import noop

FINAL_WITHIN_MS = 120_000


class DramatiqSubmitter:
    """Sends messages and blocks for their results; broker and backend may be shared by threads."""

    def __init__(self) -> None:
        self._payload = payload()

    def one(self) -> None:
        """Send one message and wait for its end; a failed one raises."""
        noop.send(self._payload).get_result(block=True, timeout=FINAL_WITHIN_MS)

    def burst(self, count: int) -> None:
        """Send many, and return when the last is seen to have succeeded."""
        sent = group(noop.message(self._payload) for _ in range(count)).run()
        sent.wait(timeout=FINAL_WITHIN_MS)


if __name__ == "__main__":
    serve(DramatiqSubmitter())
