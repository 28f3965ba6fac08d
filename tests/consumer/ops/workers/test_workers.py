"""Whether a worker lives, and how the workers of a group look in terminals of two widths."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from consumer.features.pausing.paused import GUARD, PausedTopic
from consumer.journal.workers import HeldClaims, RegisteredWorker
from consumer.ops.health.pace import TopicPace
from consumer.ops.health.vitals import OldestRequest
from consumer.ops.workers.page import row_json, workers_page
from consumer.ops.workers.workers import (
    MAX_TOPICS,
    SeenHeartbeat,
    WorkerLoad,
    WorkerRow,
    WorkerState,
    decode_load,
    load_of,
    rows_of,
    state_of,
)
from tests.consumer.ops.health.samples import vitals
from tests.consumer.samples import payments

LIVING = SeenHeartbeat(WorkerLoad(slots=4, slots_busy=3, version="0.1.0", oldest_s=61.0), 1.5)
DRAINING = SeenHeartbeat(WorkerLoad(is_draining=True), 0.5)
HUGE = b'{"pace": {"pay": {"over_s": 1, "steps": {"999999": 9}}}}'
OF_AN_OLDER_VERSION = SeenHeartbeat(WorkerLoad(held=1, waiting=2, slots=4), 0.5)
ALIVE, DEAD = "pay-1.example-4711-9f3a2b", "pay-2.example-12-000000"
REGISTERED = (RegisteredWorker(DEAD, 1_700_000_000_000, -90_000), RegisteredWorker(ALIVE, 1, 4_000))


@pytest.mark.parametrize(
    ("lease_left_s", "heartbeat", "redis_away", "state"),
    [
        (4.0, LIVING, False, WorkerState.LIVES),
        (4.0, DRAINING, False, WorkerState.DRAINS),
        (4.0, None, False, WorkerState.NO_HEARTBEAT),
        (-1.0, LIVING, False, WorkerState.LEASE_OVER),
        (-1.0, None, False, WorkerState.DEAD),
        (4.0, None, True, WorkerState.LIVES),
        (-1.0, None, True, WorkerState.UNKNOWN),
    ],
)
def test_a_worker_lives_by_its_lease_and_its_heartbeat(
    lease_left_s: float, heartbeat: SeenHeartbeat | None, redis_away: bool, state: WorkerState
) -> None:
    assert state_of(lease_left_s, heartbeat, redis_away=redis_away) is state


def test_the_living_stand_first() -> None:
    rows = rows_of(REGISTERED, {ALIVE: LIVING})
    assert [(one.worker_id, one.host) for one in rows] == [
        (ALIVE, "pay-1.example"),
        (DEAD, "pay-2.example"),
    ]


def test_a_heartbeat_says_what_the_worker_does_and_never_a_key() -> None:
    seen = vitals(
        slots_busy=1,
        held=1,
        paused=(
            PausedTopic("pay", "12% failed", 5, GUARD),
            *(PausedTopic(f"t-{number}", "secret", 5, "ann@desk") for number in range(99)),
        ),
    )
    pace = {f"t-{number}": TopicPace(ended=number, over_s=60) for number in range(99)}
    oldest, handlers = OldestRequest("card-4711", "pay", 0, 17, 12.5, True), [payments()]
    told = load_of(seen, oldest, waiting=3, pace=pace, handlers=handlers)
    text = json.dumps(told)
    assert "card" not in text and "ann" not in text and "secret" not in text
    load = decode_load(text.encode())
    assert load is not None
    assert (load.slots_busy, load.slots, load.held, load.waiting) == (1, 2, 1, 3)
    assert (load.oldest_s, load.version) == (12.5, "0.1.0")
    assert (load.paused["pay"], load.paused["t-0"]) == (GUARD, "group")
    assert len(load.paused) == len(load.pace) == MAX_TOPICS
    assert load.handlers == {"payments": "m:f: effect external, a person ends doubts"}
    assert load.pace["t-98"] == TopicPace(ended=98, over_s=60) and "t-5" not in load.pace


PAUSED_AND_BROKEN = b'{"paused": {"pay": "guard"}, "slots": "many"}'
UNREAD = [b"", b"alive", b"[1]", b'{"slots": "many"}', HUGE, b"\xff", PAUSED_AND_BROKEN]
NO_AGES = [b'{"oldest_s": %s}' % one for one in (b"NaN", b"Infinity", b"-Infinity")]


@pytest.mark.parametrize("value", [*UNREAD, *NO_AGES])
def test_a_heartbeat_that_cannot_be_read_is_none_and_no_empty_one(value: bytes) -> None:
    assert decode_load(value) is None
    assert decode_load(b"{}") == WorkerLoad()


def test_a_person_is_told_which_heartbeat_cannot_be_read() -> None:
    unread = SeenHeartbeat(WorkerLoad(), 0.5, is_read=False)
    rows = rows_of(REGISTERED, {ALIVE: unread})
    assert "the content of its heartbeat cannot be read" in " ".join(drawn(rows, width=120).split())


def drawn(rows: list[WorkerRow], *, width: int) -> str:
    """Return the text that a terminal of this width shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    console.print(workers_page(rows, width=width))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return "\n".join(lines)


def seen_rows() -> list[WorkerRow]:
    paused = SeenHeartbeat(LIVING.load.model_copy(update={"paused": {"pay": GUARD}}), 1.5)
    alive, dead = rows_of(REGISTERED, {ALIVE: paused})
    held = [HeldClaims("book\x1b[31m", 1200, 95_000)]
    return [alive, WorkerRow(dead.worker_id, dead.host, dead.state, 5, -90.0, None, held)]


@pytest.mark.parametrize("width", [80, 120])
def test_a_person_sees_the_living_and_what_the_dead_have_left(width: int) -> None:
    text = drawn(seen_rows(), width=width)
    for part in ("3 of 4", "1 min", "1.5 s ago", "over 1 min", "pay is paused by guard"):
        assert part in text
    words = " ".join(text.split())
    assert "has left 1,200 claimed of book\\x1b[31m, the oldest 1 min ago" in words
    assert ("0.1.0" in text) is (width == 120)


def test_of_a_worker_of_an_older_version_is_shown_what_it_says() -> None:
    (row,) = rows_of(REGISTERED[1:], {ALIVE: OF_AN_OLDER_VERSION})
    assert ALIVE in drawn([row], width=120)
    said = row_json(row)
    assert (said["state"], said["slots"], said["slots_busy"]) == ("lives", 4, None)


def test_claims_that_could_not_be_counted_are_not_none() -> None:
    (row,) = rows_of(REGISTERED[:1], {})
    unknown = WorkerRow(row.worker_id, row.host, row.state, 5, -90.0, None, None)
    assert "what it has left was not counted" in drawn([unknown], width=120)
    assert (row_json(unknown)["left"], row_json(row)["left"]) == (None, [])
