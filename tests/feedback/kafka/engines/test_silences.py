"""Which offsets hold no committed records, whatever engine is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.engines import engine_of
from feedback.kafka.probes import SilentOffsets
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.grounds import Ground

# Both libraries have the same.
pytestmark = pytest.mark.parametrize("engine", ["kafka-python"])

Silent = Callable[[str, int, int, int], list[SilentOffsets]]
TOGETHER = 24


@pytest.fixture
def silent(settings: KafkaSection) -> Iterator[Silent]:
    """Yield the question."""
    with closing(engine_of(settings).silences(settings)) as probe:
        yield probe.silent


def test_marks_of_transactions_that_end_together_are_silent_and_their_records_are_not(
    ground: Ground, topic: Callable[..., str], silent: Silent
) -> None:
    name = topic(1)
    with ExitStack() as ends:
        every = [ends.enter_context(ground.transactions()) for _ in range(TOGETHER)]
        for one in every:
            one.write(name, b"{}")
        for number, one in enumerate(every):
            (one.abort if number == 0 else one.commit)()
    # The first was aborted: its record and all marks.
    assert silent(name, 0, 0, 100) == [(0, 1), (TOGETHER, 2 * TOGETHER)]
    assert silent(name, 0, TOGETHER + 2, TOGETHER + 5) == [(TOGETHER + 2, TOGETHER + 5)]


def test_what_was_committed_after_an_abort_of_the_same_producer_is_not_silent(
    ground: Ground, topic: Callable[..., str], silent: Silent
) -> None:
    name = topic(1)
    with ground.transactions() as foreign:
        foreign.write(name, b"1", b"2")
        foreign.abort()
        foreign.write(name, b"3")
        foreign.commit()
    assert silent(name, 0, 0, 5) == [(0, 3), (4, 5)]


def test_plain_records_are_never_silent_and_what_is_gone_is_told(
    ground: Ground, topic: Callable[..., str], silent: Silent
) -> None:
    name = topic(1)
    for _ in range(3):
        ground.write(name, [b"{}"])
    assert silent(name, 0, 0, 3) == []
    ground.delete_records((name, 0), 2)
    with pytest.raises(KafkaUnavailable, match="OffsetOutOfRange"):
        silent(name, 0, 0, 3)
