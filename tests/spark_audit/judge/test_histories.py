"""Random histories: Spark finds what a plain reading of the rules finds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.stage.manifest import ForgottenPartition
from tests.spark_audit.judge.day import DEADLINE, FIRST_OFFSET, NOON, TOPIC, Day, Facts
from tests.spark_audit.judge.histories import add_history
from tests.spark_audit.judge.planted import plant
from tests.spark_audit.judge.reference import audit, resends

# A query costs half a second however small it is, so each judges many histories.
TOGETHER = 20
# Of one partition the first records, whose rows were pruned by this deadline.
PRUNED = (ForgottenPartition(TOPIC, 1, FIRST_OFFSET + 300, NOON + DEADLINE),)


def findings(judged: dict[str, Facts]) -> dict[str, set[Finding]]:
    return {
        request_id: {finding for finding in REQUEST_FINDINGS if row[finding]}
        for request_id, row in judged.items()
    }


def needed(judged: dict[str, Facts]) -> dict[str, bool | None]:
    return {request_id: row["resend_needed"] for request_id, row in judged.items()}


@st.composite
def days(draw: st.DrawFn) -> Day:
    day = Day(forgotten=PRUNED)
    for number in range(draw(st.integers(1, TOGETHER))):
        add_history(day, f"r{number}", lambda options: draw(st.sampled_from(options)))
    ids = [one["request_id"] for one in day.records]
    day.carried = tuple(draw(st.sets(st.sampled_from(ids)))) if ids else ()
    return _without_doubles(day)


def random_day(seed: int, histories: int) -> Day:
    random = Random(seed)
    day = Day(forgotten=PRUNED)
    for number in range(histories):
        add_history(day, f"r{number}", random.choice)
    return _without_doubles(day)


def _without_doubles(day: Day) -> Day:
    """Keep one row of each id, as the journal's primary key does."""
    day.requests = list({one["request_id"]: one for one in day.requests}.values())
    return day


def _of(judged: dict[str, Facts], known: dict[str, bool | None]) -> dict[str, bool | None]:
    return {request_id: known[request_id] for request_id in known if request_id in judged}


# Thousands of histories together are judged in `make test`; these are small, and shrink.
@pytest.mark.long
@given(day=days())
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_history_is_judged_as_the_rules_say(spark: SparkSession, day: Day) -> None:
    judged = day.judged(spark)
    assert findings(judged) == audit(day)
    assert needed(judged) == dict.fromkeys(judged) | _of(judged, resends(day))


def test_thousands_of_histories_are_judged_as_the_rules_say(spark: SparkSession) -> None:
    day = random_day(5, 3_000)
    judged = day.judged(spark)
    found = findings(judged)
    assert found == audit(day)
    assert needed(judged) == dict.fromkeys(judged) | _of(judged, resends(day))
    assert set(needed(judged).values()) == {True, False, None}
    assert set.union(*found.values()) == set(REQUEST_FINDINGS)


def test_the_planted_day_is_what_a_plain_reading_of_the_rules_finds() -> None:
    planted = plant()
    # An id that nothing is known of is nothing to a reader either.
    assert audit(planted.day) == planted.findings
