"""Each offset is judged once, whatever its time and whenever the runs are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from spark_audit.stage.chain import (
    STRAY_MS,
    Chain,
    ChainLink,
    ChainStart,
    EarlierRun,
    RunReach,
    first_reached,
)

DAY_MS = 86_400_000
DAYS = 5
TOPIC_ID = "topic-1"
PLACE = ("pay", 0)


def begin_of(day: int) -> int:
    return STRAY_MS + day * DAY_MS


def date_of(day: int) -> str:
    return f"2026-11-{day + 1:02}"


@dataclass
class Log:
    """A partition and the runs over it, as the freeze and the staging make them."""

    times: list[int] = field(default_factory=list)
    pasts: dict[str, EarlierRun] = field(default_factory=dict)

    def first_since(self, at: int) -> int:
        """Return the offset that Kafka names for a time: of the first record not before it."""
        later = (offset for offset, time in enumerate(self.times) if time >= at)
        return next(later, len(self.times))

    def run(
        self, day: int, now: int, *, until: int | None = None, most: int | None = None
    ) -> ChainLink:
        """Judge a day and return its link.

        Args:
            most: it reads no further, but for what an earlier run of the day has read.
        """
        chain = Chain(date_of(day), sorted(self.pasts.values(), key=lambda one: one.number))
        number, end = chain.number, len(self.times)
        start = chain.start(PLACE, TOPIC_ID, end=end, is_derived=False)
        own = [one.after for one in start.reaches if one.date == chain.date]
        end = end if most is None else max([min(most, end), start.first or 0, *own])
        by_time = min(self.first_since(begin_of(day)), end)
        first = by_time if start.first is None else start.first
        reaches = tuple(one for one in start.reaches if one.after > first)
        until = until or begin_of(day + 1)
        if chain.is_fixed(until):
            assert chain.own is not None
            number, until, now = chain.own.number, chain.own.until_ms, chain.own.frozen_at_ms
        else:
            strays = 0 if start.is_first else first
            reaches = (*reaches, RunReach(number, date_of(day), first, end, until, now, strays))
        waiting = [at for at in range(first, end) if owner(reaches, at, self.times[at]) is None]
        next_first = min(waiting, default=max(first, end))
        link = ChainLink(*PLACE, TOPIC_ID, first, reaches, next_first=next_first)
        self.pasts[chain.date] = EarlierRun(chain.date, number, until, now, {PLACE: link})
        return link

    def judged(self, day: int) -> set[int]:
        """Return the offsets that the day's own manifest calls its own."""
        past = self.pasts.get(date_of(day))
        if past is None:
            return set()
        reaches = past.links[PLACE].reaches
        every = range(len(self.times))
        return {at for at in every if owner(reaches, at, self.times[at]) == past.date}


def owner(reaches: Iterable[RunReach], offset: int, timestamp_ms: int) -> str | None:
    """Return the date of the day that judges a record; None while none does."""
    return next((one.date for one in reaches if one.takes(offset, timestamp_ms)), None)


def time_of(random: Random, now: int) -> int:
    """Return what a record says that arrives now: mostly about the time, or nonsense."""
    kind = random.random()
    if kind < 0.6:
        return now - random.randrange(1_000)
    if kind < 0.75:
        return now - random.randrange(DAY_MS)  # late
    if kind < 0.9:
        return now + random.randrange(DAY_MS)  # early
    return random.choice((-1, 0, 1_000_000_000_000, 4_070_908_800_000))


@pytest.mark.parametrize("seed", range(60))
def test_each_offset_is_judged_on_one_day_by_runs_at_any_times(seed: int) -> None:
    random = Random(seed)
    log = Log()
    now = begin_of(0)
    while now < begin_of(DAYS):
        log.times += [time_of(random, now) for _ in range(random.randrange(20))]
        now += random.randrange(1, DAY_MS // 2)
        if random.random() < 0.6:
            # Of a day that has begun: also one that was missed, was judged before, or is not over.
            day = random.randrange(min(DAYS, (now - begin_of(0)) // DAY_MS + 1))
            # Some read the log to its end, and some less, as those that are made late do.
            most = random.choice((None, random.randrange(len(log.times) + 1)))
            log.run(day, now, most=most)
    first = min((past.links[PLACE].first for past in log.pasts.values()), default=0)
    log.times += [time_of(random, now) for _ in range(5)]
    # Late enough that nothing waits for a later day; also those of which the time is to come.
    log.run(DAYS + 1, begin_of(DAYS + 2))
    days = [log.judged(day) for day in range(DAYS + 2)]
    judged = Counter(offset for day in days for offset in day)
    assert set(judged.values()) <= {1}
    # All but the days before the folder's first run, of which strays were taken all the same.
    assert set(range(first, len(log.times))) <= set(judged)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_day_has_judged_stays_its_own_when_it_is_judged_again(seed: int) -> None:
    random = Random(seed)
    log = Log()
    for day in range(DAYS):
        for _ in range(20):
            log.times.append(time_of(random, begin_of(day) + random.randrange(DAY_MS)))
        log.run(day, begin_of(day + 1) + 1_000)
    before = [log.judged(day) for day in range(DAYS)]
    log.times += [time_of(random, begin_of(DAYS)) for _ in range(20)]
    for day in random.sample(range(DAYS - 1), 3):
        log.run(day, begin_of(DAYS) + 2_000)
    assert [log.judged(day) for day in range(DAYS - 1)] == before[:-1]
    # The last one takes what came since, and keeps what it had.
    log.run(DAYS - 1, begin_of(DAYS) + 3_000)
    assert log.judged(DAYS - 1) >= before[-1]


def test_a_record_of_another_time_belongs_to_the_first_run_that_no_later_day_will_come_for() -> (
    None
):
    log = Log()
    noon = begin_of(1) + DAY_MS // 2
    # Of the day before, timeless, of 1970, of 2099, and of the day after, which has begun.
    log.times = [noon, noon - DAY_MS, -1, 0, 4_070_908_800_000, begin_of(2) + 5]
    log.run(1, begin_of(2) + 10)
    assert log.judged(1) == {0, 1, 2, 3, 4}
    log.times += [noon, begin_of(2) + 11]
    log.run(2, begin_of(3) + 10)
    # What was sent before midnight and came after the freeze is the next run's.
    assert log.judged(2) == {5, 6, 7}


def test_what_the_day_before_had_taken_does_not_move_when_an_older_day_is_judged_again() -> None:
    log = Log([begin_of(day) for day in range(4)])
    taken_ms = {day: begin_of(day + 1) + 1_000 for day in (0, 2)}
    for day, at in taken_ms.items():
        log.run(day, at)
    # An old one again, with another clock, and one that was missed.
    log.pasts[date_of(0)] = replace(log.pasts[date_of(0)], frozen_at_ms=begin_of(4))
    log.run(1, begin_of(4))
    pasts = tuple(log.pasts.values())
    found = [Chain(date_of(day), pasts).before_ms for day in (0, 1, 3)]
    assert found == [0, taken_ms[0], taken_ms[2]]


def test_a_first_run_begins_with_its_window_and_takes_only_strays_before() -> None:
    log = Log([begin_of(0), -1, 1_000_000_000_000, begin_of(1), begin_of(0) + 1])
    log.run(1, begin_of(2))
    assert log.judged(1) == {1, 2, 3, 4}
    # The day before, judged late, takes what is left.
    log.run(0, begin_of(2) + 1)
    assert log.judged(0) == {0}


def test_a_missed_day_goes_with_the_next_one() -> None:
    log = Log([begin_of(0)])
    log.run(0, begin_of(1))
    log.times += [begin_of(1), begin_of(2)]
    log.run(2, begin_of(3))
    assert log.judged(2) == {1, 2}
    log.run(1, begin_of(3) + 1)
    assert log.judged(1) == set()


def test_a_day_that_was_judged_before_its_end_is_judged_to_its_end_later() -> None:
    log = Log([begin_of(0), begin_of(1)])
    log.run(1, begin_of(1) + 5)
    log.times.append(begin_of(1) + 6)
    log.run(0, begin_of(1) + 7)
    log.times.append(begin_of(1) + 8)
    log.run(1, begin_of(2) + 9)
    assert [log.judged(day) for day in (0, 1)] == [{0}, {1, 2, 3}]


def chain_of(*links: ChainLink) -> Chain:
    past = EarlierRun("2026-11-01", 1, 1, 2, {(one.topic, one.partition): one for one in links})
    return Chain("2026-11-02", (past,))


def judged_link(next_first: int = 9) -> ChainLink:
    return ChainLink(*PLACE, TOPIC_ID, 0, (), next_first=next_first)


def start_of(chain: Chain, *, place: tuple[str, int] = PLACE, **given: object) -> ChainStart:
    known = {"topic_id": TOPIC_ID, "end": 20, "is_derived": False} | given
    return chain.start(place, **known)  # type: ignore[arg-type]


def test_a_partition_that_was_added_is_read_from_its_first_record() -> None:
    assert start_of(chain_of(judged_link()), place=("pay", 1)) == ChainStart(0)


def test_a_topic_that_the_group_made_since_is_read_from_its_first_record() -> None:
    found = start_of(chain_of(judged_link()), place=("pay.g.dlq", 0), is_derived=True)
    assert found == ChainStart(0)


def test_a_topic_that_nobody_judged_begins_with_the_window() -> None:
    assert start_of(chain_of(judged_link()), place=("new", 0)) == ChainStart(None, is_first=True)
    assert start_of(Chain("2026-11-02"), is_derived=True) == ChainStart(None, is_first=True)


def test_a_topic_that_was_made_anew_is_read_from_its_first_record_and_its_end_was_not_seen() -> (
    None
):
    found = start_of(chain_of(judged_link()), topic_id="topic-2")
    assert found == ChainStart(0, lost_from=9)


def test_a_log_that_was_cut_is_read_from_its_new_end_and_that_is_said() -> None:
    assert start_of(chain_of(judged_link()), end=5) == ChainStart(5, lost_from=5)


def test_what_is_no_record_is_of_the_day_that_came_by_first() -> None:
    reaches = [
        RunReach(1, "a", 0, 10, 0, 0, 0),
        RunReach(2, "b", 7, 15, 0, 0, 7),
        RunReach(3, "a", 0, 20, 0, 0, 0),
    ]
    assert list(first_reached(reaches, "a")) == [(0, 10), (15, 20)]
    assert list(first_reached(reaches, "b")) == [(10, 15)]
