"""A reading that open pages share."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from consumer.console import facts
from consumer.console.facts import SharedReading
from feedback.errors import NotAvailable
from tests.eventually import eventually

LIMIT_S = 10.0


class SlowReader:
    """Returns how many readings were begun, once it may."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()
        self.fault: Exception | None = None

    def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        assert self.may_end.wait(LIMIT_S)
        if self.fault is not None:
            raise self.fault
        return number


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock, which stands still."""
    clock = [100.0]
    monkeypatch.setattr(facts, "monotonic_s", lambda: clock[0])
    return clock


def test_who_asks_while_a_slow_reading_goes_on_or_just_after_it_takes_that(
    now: list[float],
) -> None:
    reader = SlowReader()
    shared = SharedReading(reader)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shared.of, within_s=1.0)
        eventually(lambda: reader.begun == 1)
        now[0] += 29.0
        others = [pool.submit(shared.of, within_s=1.0) for _ in range(2)]
        reader.may_end.set()
        assert {one.result(LIMIT_S) for one in (first, *others)} == {1}
    now[0] += 0.9
    assert shared.of(within_s=1.0) == 1
    now[0] += 0.2
    assert shared.of(within_s=1.0) == 2


def test_a_reading_that_hangs_is_shared_for_half_a_minute_alone(now: list[float]) -> None:
    reader = SlowReader()
    shared = SharedReading(reader)
    with ThreadPoolExecutor(4) as pool:
        hangs = pool.submit(shared.of, within_s=1.0)
        eventually(lambda: reader.begun == 1)
        now[0] += 31.0
        later = pool.submit(shared.of, within_s=1.0)
        eventually(lambda: reader.begun == 2)
        now[0] += 1.0
        other = pool.submit(shared.of, within_s=1.0)
        reader.may_end.set()
        assert [one.result(LIMIT_S) for one in (hangs, later, other)] == [1, 2, 2]


def test_a_person_takes_no_reading_of_others_and_they_take_the_person_s(now: list[float]) -> None:
    reader = SlowReader()
    shared = SharedReading(reader)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shared.of, within_s=1.0)
        eventually(lambda: reader.begun == 1)
        own = pool.submit(shared.of, within_s=0.0)
        eventually(lambda: reader.begun == 2)
        other = pool.submit(shared.of, within_s=1.0)
        reader.may_end.set()
        assert [one.result(LIMIT_S) for one in (first, own, other)] == [1, 2, 2]


def test_a_fault_is_heard_by_all_who_wait_and_rests_as_a_reading_does(now: list[float]) -> None:
    reader = SlowReader()
    reader.may_end.set()
    reader.fault = NotAvailable("the journal is away")
    shared = SharedReading(reader)
    for _ in range(2):
        with pytest.raises(NotAvailable):
            shared.of(within_s=1.0)
    assert reader.begun == 1
    now[0] += 2.0
    reader.fault = None
    assert shared.of(within_s=1.0) == 2
