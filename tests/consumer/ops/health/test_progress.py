"""The rule of progress: who is late, who owes nothing, and what a stop of all means."""

from typing import Any

import pytest

from consumer.ops.health.pages import missing
from consumer.ops.health.progress import (
    ALL,
    DISPATCH,
    HANDOVER,
    LEASE,
    LOOP,
    TELLER,
    LoopProgress,
    stalled,
)
from consumer.ops.health.vitals import excused
from tests.consumer.ops.health.samples import vitals

LIMITS = {"loop": 30.0, "intake": 10.0}


@pytest.mark.parametrize(
    ("ticks", "now_s", "late"),
    [
        ({}, 1e9, {}),
        ({"loop": 100.0}, 130.0, {}),
        ({"loop": 100.0}, 131.0, {"loop": 31.0}),
        ({"loop": 100.0, "intake": 100.0}, 111.0, {"intake": 11.0}),
        ({"intake": 0.0, "loop": 0.0}, 50.0, {"loop": 50.0, "intake": 50.0}),
        ({"somebody": 0.0}, 1e9, {}),
    ],
)
def test_a_loop_is_late_beyond_its_limit(
    ticks: dict[str, float], now_s: float, late: dict[str, float]
) -> None:
    assert stalled(ticks, now_s, limits=LIMITS) == late


def test_the_time_in_which_the_whole_process_stood_still_does_not_count() -> None:
    assert stalled({"loop": 0.0}, 1030.0, limits=LIMITS, awake_since_s=1000.0) == {}
    late = stalled({"loop": 0.0}, 1031.0, limits=LIMITS, awake_since_s=1000.0)
    assert late == {"loop": 31.0}


def test_a_ticking_question_is_asked_and_ticks() -> None:
    progress = LoopProgress()
    ask = progress.ticking(LOOP, lambda: "answer")
    assert progress.ticks == {}
    assert ask() == "answer"
    assert list(progress.ticks) == [LOOP]


@pytest.mark.parametrize(
    ("seen", "owing_nothing"),
    [
        ({}, {DISPATCH, HANDOVER, TELLER}),
        ({"waiting": 3, "untold": 5}, {HANDOVER}),
        ({"waiting": 3, "free_slots": 0}, {DISPATCH, HANDOVER, TELLER}),
        ({"waiting": 3, "journal_away": True}, {DISPATCH, HANDOVER, TELLER, LEASE}),
        ({"waiting": 3, "lease_left_s": -0.1}, {DISPATCH, HANDOVER, TELLER}),
        ({"waiting": 3, "redis_away": True, "kafka_away": True}, {HANDOVER, TELLER}),
        ({"untold": 5, "redis_away": True}, {DISPATCH, HANDOVER, TELLER}),
        ({"children_late": 1}, {DISPATCH, HANDOVER, TELLER}),
        ({"children_late": 2}, {DISPATCH, TELLER}),
        ({"children_late": 2, "journal_away": True}, {DISPATCH, TELLER, LEASE}),
        ({"waiting": 3, "untold": 5, "is_draining": True}, set(ALL)),
    ],
)
def test_without_work_or_with_its_server_away_nobody_owes_progress(
    seen: dict[str, Any], owing_nothing: set[str]
) -> None:
    assert set(excused(vitals(**seen))) == owing_nothing


@pytest.mark.parametrize(
    ("seen", "lacking"),
    [
        ({}, set()),
        ({"partitions": 0}, set()),
        ({"is_open": False, "is_joined": False}, {"kafka"}),
        ({"is_joined": False}, {"kafka"}),
        ({"kafka_away": True}, {"kafka"}),
        ({"redis_away": True}, {"redis"}),
        ({"journal_away": True}, {"journal"}),
        ({"lease_left_s": 0.0}, {"journal"}),
        ({"children_ready": 0}, {"pool"}),
        ({"children_ready": 1}, set()),
        ({"children_late": 1}, set()),
        ({"children_ready": 1, "children_late": 1}, {"pool"}),
        ({"children_late": 2, "children_late_s": 12.3}, {"pool"}),
        ({"is_draining": True, "is_joined": False}, {"worker"}),
        ({"redis_away": True, "journal_away": True}, {"redis", "journal"}),
    ],
)
def test_what_a_worker_lacks_is_named(seen: dict[str, Any], lacking: set[str]) -> None:
    assert set(missing(vitals(**seen))) == lacking
