"""How far a run reads that is made long after its day, on a real broker."""

from __future__ import annotations

from collections.abc import Callable

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from spark_audit.chain import Chain
from spark_audit.freeze import freeze
from spark_audit.manifest import Manifest
from spark_audit.window import Window
from tests.spark_audit.stage.conftest import Append, Commit, MakeSettings
from tests.spark_audit.stage.samples import BEGIN_MS as BEGIN
from tests.spark_audit.stage.samples import DATE, DAY_MS

HOUR_MS = 3_600_000
WINDOW = Window(DATE, BEGIN, BEGIN + DAY_MS)
DAY = [BEGIN + number * HOUR_MS for number in range(24)]
LATE = BEGIN + 23 * HOUR_MS
NEXT_DAY = [BEGIN + DAY_MS + 2 * HOUR_MS + number for number in range(10)]
TWO_DAYS_LATER = BEGIN + 3 * DAY_MS

MakeTopic = Callable[..., str]


def _ends(manifest: Manifest) -> dict[str, int]:
    return {one.topic: one.end for one in manifest.partitions}


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
    topic: MakeTopic, append: Append, admin: KafkaAdminClient, make_settings: MakeSettings
) -> None:
    tomorrow, much_later = BEGIN + DAY_MS + 3 * HOUR_MS, BEGIN + 10_000 * DAY_MS
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    for wrong in (tomorrow, much_later):
        name = topic(1)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, any_time)])
        for timestamp_ms in (*DAY[:12], wrong, wrong, *DAY[12:], *NEXT_DAY):
            append(name, timestamp_ms=timestamp_ms)
        assert _ends(freeze(make_settings(name), WINDOW, now_ms=TWO_DAYS_LATER)) == {name: 36}


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
