"""By how much a reader slows a worker, and the screens that count letters."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from consumer.dlq.dates import date_range_of
from feedback.clock import epoch_ms
from tests.bench.console.planting import LETTER_EACH_MS, Planted
from tests.bench.console.screens import screens, times_ms
from tests.bench.console.slowdown import slows_percent
from tests.bench.errors import BenchError


def test_the_two_of_a_pair_take_turns_and_a_slower_worker_is_a_positive_figure() -> None:
    begun: list[str] = []

    def measuring(name: str, *found: float) -> Callable[[], float]:
        left = iter(found)

        def measure() -> float:
            begun.append(name)
            return next(left)

        return measure

    alone, beside = measuring("alone", 100, 200, 100), measuring("beside", 90, 190, 99)
    slows, pairs = slows_percent(alone, beside, pairs=3)
    assert begun == ["alone", "beside", "beside", "alone", "alone", "beside"]
    assert pairs == [(90, 100), (190, 200), (99, 100)]
    assert round(slows, 6) == 5


def test_a_brushed_stretch_is_half_of_the_letters_and_so_long_ago_three_quarters() -> None:
    planted, now_ms = Planted("g", 100_000, 10_000), epoch_ms()
    failed = [now_ms - LETTER_EACH_MS * number for number in range(planted.letters)]
    paths = screens(planted)
    for name, share in {
        "letters of a brushed stretch": 0.5,
        "letters of a brushed stretch by reason": 0.5,
        "letters since so long ago": 0.75,
    }.items():
        asked = parse_qs(urlsplit(paths[name]).query)
        ends = (asked.get(end, [None])[0] for end in ("since", "until"))
        since_ms, until_ms = date_range_of(*ends, now_ms=now_ms)
        assert since_ms is not None
        last_ms = now_ms + 1 if until_ms is None else until_ms
        chosen = sum(since_ms <= one < last_ms for one in failed)
        assert chosen == pytest.approx(share * planted.letters, rel=0.01), name


def test_a_page_that_counts_no_letters_is_no_figure() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="write 15m, 2h or 7d")

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://console") as console:
        assert len(times_ms(console, "/topics", times=2)) == 2
        with pytest.raises(BenchError, match="no bars"):
            times_ms(console, "/letters?since=soon", times=2)
