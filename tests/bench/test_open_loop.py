"""The open loop and the submitting process."""

import json
import threading
import time

from tests.bench.plan import PAYLOAD_BYTES
from tests.bench.submit.open_loop import open_loop, wait_until
from tests.bench.submit.serving import carry_out, payload


class Counting:
    """A submitter whose requests are final at once."""

    def __init__(self) -> None:
        self.bursts: list[int] = []
        self.ones = 0
        self._lock = threading.Lock()

    def burst(self, count: int) -> None:
        self.bursts.append(count)

    def one(self) -> None:
        with self._lock:
            self.ones += 1


def test_the_first_second_is_submitted_and_not_counted() -> None:
    counting = Counting()
    took_ms = open_loop(counting.one, rate_per_s=100, seconds=1.2)
    assert (counting.ones, len(took_ms)) == (120, 20)


def test_a_request_that_starts_late_is_measured_from_when_it_was_due() -> None:
    past_s = time.monotonic() - 1.0
    assert wait_until(past_s) == past_s


def test_a_request_that_starts_in_time_is_measured_from_its_start() -> None:
    due_s = time.monotonic() + 0.01
    assert wait_until(due_s) >= due_s


def test_a_payload_has_one_kibibyte() -> None:
    assert len(json.dumps(payload(), separators=(",", ":"))) == PAYLOAD_BYTES


def test_a_burst_is_timed_as_a_whole() -> None:
    counting = Counting()
    answer = carry_out(counting, {"rate_per_s": None, "count": 7, "seconds": 0.0})
    assert (counting.bursts, answer["requests"], answer["took_ms"]) == ([7], 7, [])


def test_a_rate_is_timed_one_by_one() -> None:
    answer = carry_out(Counting(), {"rate_per_s": 50, "count": 0, "seconds": 1.1})
    assert (answer["requests"], len(answer["took_ms"])) == (55, 5)
