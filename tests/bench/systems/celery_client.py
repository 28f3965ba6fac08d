"""The submitting process of Celery: `python -m tests.bench.systems.celery_client`."""

from __future__ import annotations

from celery.result import ResultSet  # type: ignore[import-not-found]

from tests.bench.submit.serving import payload, serve
from tests.bench.systems.celery_tasks import app, noop

FINAL_WITHIN_S = 120.0


class CelerySubmitter:
    """Calls `delay` and awaits results by Redis' publish and subscribe, Celery's own way.

    Celery gives every thread a result backend of its own, so threads may share this.
    """

    def __init__(self) -> None:
        self._payload = payload()

    def one(self) -> None:
        """Send one task and wait for its end; a failed one raises."""
        noop.delay(self._payload).get(timeout=FINAL_WITHIN_S)

    def burst(self, count: int) -> None:
        """Send many, and return when the last is seen to have succeeded."""
        sent = [noop.delay(self._payload) for _ in range(count)]
        # Measured: twice as fast as one `get` after the other.
        ResultSet(sent, app=app).join_native(timeout=FINAL_WITHIN_S)


if __name__ == "__main__":
    serve(CelerySubmitter())
