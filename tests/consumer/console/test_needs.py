"""The tasks of a person, and when all is well. Pure."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from consumer.console.audit_days import AuditDay
from consumer.console.facts import ReadFact
from consumer.console.letter_board import OpenLetters
from consumer.console.needs import Overview, needs_of
from consumer.console.owed import OwedLate
from consumer.journal.doubts import NOTHING_UNSWEPT, UnsweptClaims, UnsweptFound
from consumer.journal.pauses import PauseRow
from consumer.journal.workers import HeldClaims
from consumer.ops.workers.workers import SeenHeartbeat, WorkerLoad, WorkerRow, WorkerState
from consumer.ops.workers.workers_reading import WorkersFound

AT = 1_700_000_000_000


def worker(state: WorkerState = WorkerState.LIVES, **facts: Any) -> WorkerRow:
    """Return a worker; `paused` is of its heartbeat."""
    load = WorkerLoad(paused=facts.pop("paused", {}))
    heartbeat = SeenHeartbeat(load, 0.1, is_read=facts.pop("is_read", True))
    return WorkerRow("w-1", "h", state, AT, lease_left_s=3.0, heartbeat=heartbeat, **facts)


def found(*rows: WorkerRow, away: str | None = None) -> ReadFact[WorkersFound]:
    """Return workers."""
    return ReadFact(WorkersFound([*rows], away, is_cut=False))


def board(shown: int = 0, *, age_s: float = 0.0) -> ReadFact[OpenLetters]:
    """Return dead letters."""
    return ReadFact(OpenLetters(shown, [], AT, age_s))


def days(*verdicts: str) -> ReadFact[list[AuditDay]]:
    """Return days, the 29th of November first."""
    today = date(2026, 11, 29)
    dated = enumerate(verdicts)
    return ReadFact([AuditDay(str(today - timedelta(days=at)), one) for at, one in dated])


WELL = Overview(
    workers=found(worker()),
    doubts=ReadFact((0, NOTHING_UNSWEPT)),
    letters=board(),
    owed=ReadFact([]),
    pauses=ReadFact([]),
    days=days("none", "good", "good"),
)
UNSWEPT = [UnsweptClaims("w-2", 4, AT)]


def test_where_nothing_needs_a_person_and_all_is_known_all_is_well() -> None:
    assert needs_of(WELL) == []
    assert needs_of(replace(WELL, days=days(*["none"] * 35))) == []
    assert needs_of(replace(WELL, workers=found(worker(WorkerState.DRAINS)))) == []
    assert needs_of(replace(WELL, doubts=ReadFact((0, UnsweptFound(UNSWEPT, living=1))))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"others": {"a b": board(), "dlt": board(2)}}, "2 dead letters in dlt need a decision"),
        ({"workers": found()}, "no worker is alive"),
        ({"workers": found(worker(WorkerState.DEAD, held=[]))}, "no worker is alive"),
        (
            {"workers": found(worker(), worker(WorkerState.DEAD, held=[HeldClaims("t", 2, 5)]))},
            "w-1 is dead and has left 2 claims",
        ),
        ({"workers": found(worker(WorkerState.NO_HEARTBEAT))}, "w-1: no heartbeat"),
        ({"workers": found(worker(), worker(WorkerState.LEASE_OVER))}, "w-1: lease over"),
        ({"workers": found(worker(paused={"pay": "guard"}))}, "w-1 has paused pay"),
        ({"doubts": ReadFact((1, NOTHING_UNSWEPT))}, "1 doubt waits for a decision"),
        (
            {"doubts": ReadFact((0, UnsweptFound(UNSWEPT, living=0)))},
            "4 requests of dead workers may become doubts",
        ),
        ({"letters": board(2)}, "2 dead letters need a decision"),
        (
            {"owed": ReadFact([OwedLate("dead letter", "pay", 3, 90_000)])},
            "3 requests of pay wait for the dead letter since 1 min",
        ),
        ({"pauses": ReadFact([PauseRow("pay", "bank", AT, "ann")])}, "pay is paused by ann: bank"),
        ({"days": days("bad", "good")}, "the audit of 2026-11-29 is bad"),
        ({"days": days("none", "bad", "good")}, "the audit of 2026-11-28, 1 day ago, is bad"),
        (
            {"days": days("none", "none", "none", "good")},
            "no audit was made since that of 2026-11-26, 3 days ago",
        ),
    ],
)
def test_each_task_is_named(changes: dict[str, Any], said: str) -> None:
    (need,) = needs_of(replace(WELL, **changes))
    assert need.said.startswith(said)
    assert need.is_known


def test_people_of_before_are_a_task() -> None:
    (need,) = needs_of(replace(WELL, people_fault="the file is too long"))
    assert need.said == (
        "nobody may act here: people are as last read, and removals, roles and passwords since "
        "then do not count: the file is too long"
    )
    assert need.is_known


def test_a_bad_audit_of_long_ago_is_one_still_and_no_later_one_was_made() -> None:
    bad, missing = needs_of(replace(WELL, days=days(*["none"] * 36, "bad")))
    assert bad.said == "the audit of 2026-10-24, 36 days ago, is bad"
    assert missing.said == "no audit was made since that of 2026-10-24, 36 days ago"
    assert bad.is_known and missing.is_known


@pytest.mark.parametrize("name", ["workers", "doubts", "letters", "owed", "pauses", "days"])
def test_all_is_not_well_where_a_fact_is_not_known(name: str) -> None:
    away: Any = {name: ReadFact(None, "Redis is away")}
    (need,) = needs_of(replace(WELL, **away))
    assert "not known: Redis is away" in need.said
    assert not need.is_known


def test_all_is_not_well_where_letters_of_another_system_are_not_known() -> None:
    (need,) = needs_of(replace(WELL, others={"a/b": ReadFact(None, "Kafka is away")}))
    assert need.said == "dead letters in a/b are not known: Kafka is away"
    assert (need.page, need.is_known) == ("letters?dlq=a%2Fb", False)


def test_letters_that_were_read_more_than_a_minute_ago_are_not_all() -> None:
    assert needs_of(replace(WELL, letters=board(age_s=59.0))) == []
    old = board(age_s=150.0)
    (need,) = needs_of(replace(WELL, letters=old))
    assert need.said == "dead letters were last read 2 min ago: newer ones are not known"
    assert (need.page, need.is_known) == ("letters", False)
    (theirs,) = needs_of(replace(WELL, others={"dlt": old}))
    assert theirs.said.startswith("dead letters in dlt were last read 2 min ago")
    assert (theirs.page, theirs.is_known) == ("letters?dlq=dlt", False)


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (
            found(worker(), worker(WorkerState.DEAD, held=None)),
            "the claims of 1 dead worker were not counted",
        ),
        (
            ReadFact(WorkersFound([worker()], None, is_cut=True)),
            "there are more workers than the 1",
        ),
        (found(worker(is_read=False)), "w-1: the content of its heartbeat cannot be read"),
    ],
)
def test_what_was_not_counted_is_not_nothing(workers: ReadFact[WorkersFound], said: str) -> None:
    (need,) = needs_of(replace(WELL, workers=workers))
    assert need.said.startswith(said) and not need.is_known


def test_leases_alone_are_not_all() -> None:
    (need,) = needs_of(replace(WELL, workers=found(worker(), away="Redis is away")))
    assert (need.said, need.is_known) == ("heartbeats are not known: Redis is away", False)
