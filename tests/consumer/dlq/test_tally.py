"""What many letters come to, in memory that does not grow."""

from consumer.dlq import tally
from consumer.dlq.letter_state import LetterState
from consumer.dlq.listing import SeenLetters
from consumer.dlq.tally import NONE, OTHERS, Histogram, HistogramBar, LetterTally, NameCounts
from tests.consumer.dlq.samples import FAILED_AT, foreign, letter

MINUTE_MS = 60_000


def test_letters_are_counted_and_the_newest_are_kept_without_their_stacks() -> None:
    counted = LetterTally(limit=2)
    for number in range(4):
        one = letter(
            f"r{number}", DLQ_FAILED_AT=str(FAILED_AT + number), DLQ_REASON=f"R{number % 2}"
        )
        counted.add(one, LetterState.OPEN)
    counted.pass_over(LetterState.REPAIRED)
    assert [one.request_id for one in counted.newest()] == ["r3", "r2"]
    assert all(one.failure.stack is None for one in counted.newest())
    assert counted.shown == 4
    assert counted.states == {LetterState.OPEN: 4, LetterState.REPAIRED: 1}
    assert counted.reasons.most_common() == [("R0", 2), ("R1", 2)]
    assert (counted.oldest_ms, counted.newest_ms) == (FAILED_AT, FAILED_AT + 3)


def test_messages_that_differ_in_ids_and_numbers_are_counted_together() -> None:
    counted = LetterTally(limit=0)
    for number in (7, 12):
        said = f"charge {number} of 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a{number:02}: busy"
        counted.add(letter(DLQ_EXCEPTION_MESSAGE=said), LetterState.OPEN)
    counted.add(letter(DLQ_EXCEPTION_MESSAGE=None), LetterState.OPEN)
    assert counted.messages.most_common() == [("charge # of #: busy", 2), (NONE, 1)]


def test_nothing_is_kept_where_no_list_is_wanted() -> None:
    counted = LetterTally(limit=0)
    counted.add(letter(), LetterState.OPEN)
    assert counted.newest() == [] and counted.shown == 1


def test_too_many_names_are_counted_together(monkeypatch: object) -> None:
    names = NameCounts()
    for number in range(tally.MOST_NAMES + 500):
        names.add(f"name-{number}")
    names.add(None)
    assert len(names.counts) == tally.MOST_NAMES + 1
    assert names.most_common()[0] == (OTHERS, 501)
    assert NONE not in names.counts


def test_time_is_shown_in_steps_that_people_count_in() -> None:
    times = Histogram()
    for minute in (0, 0, 1, 9):
        times.add(FAILED_AT - FAILED_AT % MINUTE_MS + minute * MINUTE_MS)
    begin = FAILED_AT - FAILED_AT % (5 * MINUTE_MS)
    bars = times.bars(5)
    assert {bar.step_ms for bar in bars} == {5 * MINUTE_MS}
    assert sum(bar.letters for bar in bars) == 4
    assert bars[0].begin_ms == begin


def test_steps_without_any_are_shown_between() -> None:
    times = Histogram()
    times.add(0)
    times.add(2 * MINUTE_MS)
    assert times.bars(24) == [
        HistogramBar(0, MINUTE_MS, 1),
        HistogramBar(MINUTE_MS, MINUTE_MS, 0),
        HistogramBar(2 * MINUTE_MS, MINUTE_MS, 1),
    ]


def test_a_time_beyond_all_calendars_costs_no_memory() -> None:
    times = Histogram()
    times.add(2**63 - 1)
    for number in range(5000):
        times.add(number * MINUTE_MS)
    assert len(times._counts) <= tally.MOST_KEPT
    bars = times.bars(24)
    assert len(bars) <= 24
    assert [bar.letters for bar in bars if bar.letters] == [5000, 1]


def test_no_letters_have_no_times() -> None:
    assert Histogram().bars(24) == []


def test_a_letter_that_was_written_twice_is_met_once() -> None:
    with SeenLetters("g") as seen:
        first = seen.fresh([letter("a"), letter("b"), letter("a")])
        assert [one.request_id for one in first] == ["a", "b"]
        again = [letter("b"), letter("b", DLQ_ATTEMPTS="2"), letter("c", DLQ_ATTEMPTS=None)]
        assert [one.request_id for one in seen.fresh(again)] == ["b", "c"]
        # Beside a letter of ours, each failure in another system counts.
        theirs = [foreign("b", 5), foreign("b", 9), foreign("b", 5)]
        assert [one.failure.original.offset for one in seen.fresh(theirs)] == [5, 9]
