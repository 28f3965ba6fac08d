"""Making the next item while this one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from consumer.dlq.redrive.loop import prefetched

LIMIT_S = 60.0


def test_all_items_come_in_their_order() -> None:
    assert list(prefetched(iter(range(100)))) == list(range(100))
    assert list(prefetched(iter(()))) == []


def test_the_next_is_made_while_this_one_is_in_use_and_none_beyond() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    coming = prefetched(items())
    assert next(coming) == 0
    assert made[1].wait(LIMIT_S)
    assert next(coming) == 1
    assert made[2].wait(LIMIT_S)
    coming.close()
    assert not made[3].is_set()


def test_an_error_comes_behind_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("away")

    coming = prefetched(items())
    assert next(coming) == 1
    with pytest.raises(OSError, match="away"):
        next(coming)


def test_whoever_stops_early_waits_for_what_is_being_made() -> None:
    ended = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        ended.set()
        yield 2

    coming = prefetched(items())
    next(coming)
    coming.close()
    assert ended.is_set()
