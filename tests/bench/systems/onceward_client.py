"""The submitting process of Onceward: `python -m tests.bench.systems.onceward_client`."""

from __future__ import annotations

import queue
import threading

from feedback.status import State
from feedback.statuses import Status
from producer_client import Client, Submission
from tests.bench.errors import BenchError
from tests.bench.submit.serving import payload, serve

FOLLOWED_AT_ONCE = 500
FINAL_WITHIN_S = 120.0


class OncewardSubmitter:
    """Sends through one `Client`; a burst is followed by a second thread while it is sent."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._payload = payload()

    def one(self) -> None:
        """Send one request and wait for its end."""
        sent = self._client.send(self._payload)
        _require_success(sent.wait(timeout_s=FINAL_WITHIN_S))

    def burst(self, count: int) -> None:
        """Send many, and return when the last is seen to have succeeded."""
        sent: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        follower = Follower(self._client, sent, count)
        follower.start()
        chunk: list[str] = []
        for result in self._client.send_many(Submission(self._payload) for _ in range(count)):
            if result.error is not None:
                raise result.error
            chunk.append(result.request_id)
            if len(chunk) == FOLLOWED_AT_ONCE:
                sent.put(chunk)
                chunk = []
        sent.put(chunk)
        follower.join()
        if follower.fault is not None:
            raise follower.fault


class Follower(threading.Thread):
    """Waits for the requests of a burst, some hundred at a time, in the order they were sent."""

    def __init__(self, client: Client, sent: queue.SimpleQueue[list[str]], count: int) -> None:
        super().__init__(name="follower", daemon=True)
        self._client = client
        self._sent = sent
        self._left = count
        self.fault: Exception | None = None

    def run(self) -> None:
        """Follow until all have ended."""
        try:
            while self._left:
                chunk = self._sent.get()
                for status in self._client.wait_many(chunk, timeout_s=FINAL_WITHIN_S):
                    _require_success(status)
                self._left -= len(chunk)
        except Exception as fault:  # raised again in the thread that waits for this one
            self.fault = fault


def _require_success(status: Status) -> None:
    if status.state is not State.SUCCEEDED:
        raise BenchError(f"{status.request_id} is {status.state}: {status.code} {status.message}")


if __name__ == "__main__":
    with Client() as client:
        serve(OncewardSubmitter(client))
