"""How far a run reads that is made long after its day, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from feedback.kafka.questions import asking
from spark_audit.stage import hanging
from spark_audit.stage.chain import Chain
from spark_audit.stage.freeze import freeze
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.window import Window, _is_over, looked_at
from tests.eventually import eventually
from tests.spark_audit.stage.conftest import Append, Commit, MakeSettings
from tests.spark_audit.stage.samples import BEGIN_MS as BEGIN
from tests.spark_audit.stage.samples import DATE, DAY_MS
from tests.stack import Servers
from tests.transactions import Transactions

HOUR_MS = 3_600_000
WINDOW = Window(DATE, BEGIN, BEGIN + DAY_MS)
DAY = [BEGIN + number * HOUR_MS for number in range(24)]
LATE = BEGIN + 23 * HOUR_MS
NEXT_DAY = [BEGIN + DAY_MS + 2 * HOUR_MS + number for number in range(10)]
TWO_DAYS_LATER = BEGIN + 3 * DAY_MS

MakeTopic = Callable[..., str]


def _ends(manifest: Manifest) -> dict[str, int]:
    return {one.topic: one.end for one in manifest.partitions}


@pytest.fixture
def topic(topic: MakeTopic) -> MakeTopic:
    """Return a factory of topics that take records of a time to come.

    By default a broker refuses a time that is more than an hour ahead. DAY is yesterday, so in the
    first hour of today NEXT_DAY still is.
    """
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    return partial(topic, configs=any_time)


def test_a_day_that_is_read_late_ends_where_it_ended_with_what_came_soon_after(
    topic: MakeTopic, append: Append, commit: Commit, group: str, make_settings: MakeSettings
) -> None:
    name = topic(1)
    letters = topic(1, name=f"{name}.{group}.dlq")
    soon = BEGIN + DAY_MS + HOUR_MS // 2
    for timestamp_ms in (*DAY, soon, LATE, *NEXT_DAY):
        append(name, timestamp_ms=timestamp_ms)
    append(letters, timestamp_ms=NEXT_DAY[0])
    settings = make_settings(name)
    # A letter may tell how a request of the day has ended, however late it is.
    found = freeze(settings, WINDOW, now_ms=TWO_DAYS_LATER)
    assert _ends(found) == {name: 26, letters: 1}
    nightly = freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS + HOUR_MS // 2)
    assert _ends(nightly)[name] == 36
    tomorrow = Window("2100-01-01", BEGIN + DAY_MS, BEGIN + 2 * DAY_MS)
    chain = Chain(tomorrow.date, (found.past,))
    rest = freeze(settings, tomorrow, now_ms=TWO_DAYS_LATER, chain=chain)
    assert rest.stretches(name, 0) == ((26, 36),)


def test_a_clock_that_is_wrong_does_not_end_a_day(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    tomorrow, much_later = BEGIN + DAY_MS + 3 * HOUR_MS, BEGIN + 10_000 * DAY_MS
    for wrong in (tomorrow, much_later):
        name = topic(1)
        for timestamp_ms in (*DAY[:12], wrong, wrong, *DAY[12:], *NEXT_DAY):
            append(name, timestamp_ms=timestamp_ms)
        assert _ends(freeze(make_settings(name), WINDOW, now_ms=TWO_DAYS_LATER)) == {name: 36}


def test_a_judged_record_of_a_wrong_clock_does_not_end_a_later_day(
    topic: MakeTopic,
    append: Append,
    servers: Servers,
    make_settings: MakeSettings,
) -> None:
    name = topic(1)
    after_tomorrow = BEGIN + 2 * DAY_MS + 3 * HOUR_MS
    for timestamp_ms in (*DAY, after_tomorrow):
        append(name, timestamp_ms=timestamp_ms)
    settings = make_settings(name)
    nightly = freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS + HOUR_MS // 2)
    # Every offset that is looked at is a hole: an aborted record.
    with Transactions(servers.kafka) as foreign:
        foreign.write(name, *[b"aborted"] * 10, timestamp_ms=NEXT_DAY[0])
        foreign.abort()
    last = [append(name, timestamp_ms=NEXT_DAY[0]) for _ in range(2)][-1]
    assert set(looked_at(24, last + 1)) <= set(range(24, 35))
    # The mark of the abort comes soon after it; up to there nothing is read.
    eventually(lambda: _ends(freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS))[name] > last)
    tomorrow = Window("2100-01-01", BEGIN + DAY_MS, BEGIN + 2 * DAY_MS)
    chain = Chain(tomorrow.date, (nightly.past,))
    late = freeze(settings, tomorrow, now_ms=BEGIN + 4 * DAY_MS, chain=chain)
    assert _ends(late)[name] > last


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a transaction that does not end soon for one that hangs."""
    monkeypatch.setattr(hanging, "PATIENCE_S", 2.0)


@pytest.mark.usefixtures("impatient")
def test_a_transaction_that_hangs_since_before_the_days_end_is_named(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, servers: Servers
) -> None:
    name = topic(1)
    settings = make_settings(name)
    # A clock that is ahead says nothing of what comes after it.
    append(name, timestamp_ms=BEGIN + 10_000 * DAY_MS)
    with Transactions(servers.kafka) as foreign:
        foreign.write(name, b"open", timestamp_ms=LATE)
        append(name, timestamp_ms=LATE)
        soon, nightly = (
            freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS + wait_ms) for wait_ms in (0, HOUR_MS)
        )
        # At midnight it may well be about to end.
        assert (_ends(soon), soon.hidden) == ({name: 1}, ())
        assert _ends(nightly) == {name: 1}
        (said,) = nightly.hidden
        assert f"{name}-0 has from offset 1 on: a transaction is open" in said
        foreign.commit()
    assert freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS + HOUR_MS).hidden == ()


def test_a_transaction_with_old_records_that_ends_soon_hides_nothing(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, servers: Servers
) -> None:
    name = topic(1)
    append(name, timestamp_ms=LATE)
    with Transactions(servers.kafka) as foreign, ThreadPoolExecutor(1) as pool:
        foreign.write(name, b"open", timestamp_ms=LATE)
        now_ms = BEGIN + DAY_MS + HOUR_MS
        found = pool.submit(freeze, make_settings(name), WINDOW, now_ms=now_ms)
        foreign.commit()
        assert found.result().hidden == ()


@pytest.mark.usefixtures("impatient")
def test_a_transaction_that_hangs_behind_another_one_that_ends_is_named(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, servers: Servers
) -> None:
    place = (topic(1), 0)
    settings = make_settings(place[0])
    append(place[0], timestamp_ms=LATE)
    with (
        Transactions(servers.kafka) as first,
        Transactions(servers.kafka) as second,
        asking(settings.kafka) as kafka,
    ):
        first.write(place[0], b"open", timestamp_ms=LATE)
        second.write(place[0], b"open", timestamp_ms=LATE)
        log_ends, ends = kafka.ends([place]), kafka.committed_ends([place])
        first.commit()
        limits = {"until_ms": WINDOW.until_ms, "now_ms": BEGIN + DAY_MS + HOUR_MS}
        found = hanging.hidden_records(settings.kafka, kafka, ends, log_ends, **limits)
        second.abort()
    assert (ends, log_ends) == ({place: 1}, {place: 3})
    assert f"{place[0]}-0 has from offset 2 on" in found[place]


def test_a_transaction_that_began_after_the_days_end_hides_nothing_of_it(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, servers: Servers
) -> None:
    name = topic(1)
    append(name, timestamp_ms=LATE)
    with Transactions(servers.kafka) as foreign:
        foreign.write(name, b"open", timestamp_ms=NEXT_DAY[0])
        found = freeze(make_settings(name), WINDOW, now_ms=BEGIN + DAY_MS + 3 * HOUR_MS)
        foreign.abort()
    assert (_ends(found), found.hidden) == ({name: 1}, ())


@pytest.mark.parametrize(
    ("times", "is_over"),
    [
        ([NEXT_DAY[0], NEXT_DAY[1]], True),
        ([NEXT_DAY[0], None, BEGIN + 9 * DAY_MS], True),
        ([NEXT_DAY[0], DAY[3]], False),
        # What Kafka named is no record any more, or of a time to come: only holes lie behind it.
        ([None, NEXT_DAY[0]], False),
        ([BEGIN + 9 * DAY_MS, None, None], False),
    ],
)
def test_a_day_is_over_where_the_record_that_kafka_named_is_there_and_has_a_time_that_was(
    times: list[int | None], is_over: bool
) -> None:
    assert _is_over(times, BEGIN + DAY_MS, TWO_DAYS_LATER) is is_over


def test_no_less_is_read_than_an_earlier_run_of_the_day_has_read(
    topic: MakeTopic, append: Append, make_settings: MakeSettings
) -> None:
    name = topic(1)
    for timestamp_ms in (*DAY, *NEXT_DAY):
        append(name, timestamp_ms=timestamp_ms)
    settings = make_settings(name)
    nightly = freeze(settings, WINDOW, now_ms=BEGIN + DAY_MS + HOUR_MS // 2)
    append(name, timestamp_ms=NEXT_DAY[-1])
    again = freeze(settings, WINDOW, now_ms=TWO_DAYS_LATER, chain=Chain(DATE, (nightly.past,)))
    assert _ends(again) == {name: 34}
