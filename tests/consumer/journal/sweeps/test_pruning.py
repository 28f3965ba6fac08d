"""What is forgotten, and what never is."""

from __future__ import annotations

import pytest

from consumer.journal import (
    Journal,
    JournalState,
    OwnRun,
    PrunedRows,
    ToldRun,
    VerdictKind,
    Work,
)
from consumer.journal.sweeps.pruning import LetteredTopics
from feedback.clock import epoch_ms
from feedback.records.envelope import FirstPlace
from feedback.status import DISOWNED
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import FAR, PAST, claim, finish, kinds, new_id

DAY_MS = 86_400_000


def age(database: Database, column: str, **where: str) -> None:
    database.change(
        f'UPDATE onceward_request SET "{column}" = 1 WHERE request_id = :request_id', **where
    )


def ended(journal: Journal, database: Database, state: str = JournalState.SUCCEEDED) -> str:
    """Return the id of a request whose deadline and end are long ago."""
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=state, resend=state == JournalState.FAILED)]))
    age(database, "deadline_at", request_id=name)
    age(database, "finished_at", request_id=name)
    return name


def died(journal: Journal, database: Database) -> str:
    """Return the id of a request that has failed for good, long ago, and has no dead letter."""
    name = ended(journal, database, JournalState.FAILED)
    database.change(
        "UPDATE onceward_request SET resend = 0 WHERE request_id = :request_id", request_id=name
    )
    return name


def left(database: Database) -> set[str]:
    return {row["request_id"] for row in database.query("SELECT * FROM onceward_request")}


def test_what_ended_long_ago_is_forgotten_in_small_batches(
    journal: Journal, database: Database
) -> None:
    for _ in range(5):
        ended(journal, database)
    counts = [journal.prune(DAY_MS, 2).requests for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    assert left(database) == set()


@pytest.mark.parametrize("young", ["deadline_at", "finished_at"])
def test_what_is_not_past_its_deadline_or_ended_lately_is_kept(
    journal: Journal, database: Database, young: str
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name)]))
    old = "finished_at" if young == "deadline_at" else "deadline_at"
    age(database, old, request_id=name)
    assert journal.prune(DAY_MS, 10) == PrunedRows(0, 0, 0)
    assert left(database) == {name}


@pytest.mark.parametrize("state", [JournalState.IN_DOUBT, JournalState.RETRYING])
def test_what_did_not_end_is_kept_however_old(
    journal: Journal, database: Database, state: JournalState
) -> None:
    claimed = new_id()
    journal.apply(Work(claims=[claim(claimed)]))
    age(database, "deadline_at", request_id=claimed)
    waiting = ended(journal, database, state)
    assert journal.prune(0, 10).requests == 0
    assert left(database) == {claimed, waiting}


def test_the_history_of_a_forgotten_request_goes_with_it_and_no_other(
    journal: Journal, database: Database
) -> None:
    for _ in range(2):
        name = new_id()
        journal.apply(Work(claims=[claim(name)]))
        journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
        journal.apply(Work(claims=[claim(name, attempt=2)]))
        journal.apply(Work(finishes=[finish(name, 2)]))
    age(database, "deadline_at", request_id=name)
    age(database, "finished_at", request_id=name)
    assert journal.prune(DAY_MS, 10) == PrunedRows(1, 1, 0)
    assert len(database.query("SELECT * FROM onceward_run")) == 1


def test_a_request_that_expired_is_forgotten_like_any_other(
    journal: Journal, database: Database
) -> None:
    journal.apply(Work(claims=[claim(new_id(), deadline_at=PAST)]))
    assert journal.prune(DAY_MS, 10).requests == 0
    assert journal.prune(0, 10).requests == 1


def test_workers_that_are_long_gone_are_forgotten_and_others_are_not(
    journal: Journal, open_leases: OpenLeases, database: Database
) -> None:
    open_leases("live").register(60)
    open_leases("gone").register(0)
    assert journal.prune(0, 10).workers == 1
    assert [row["worker_id"] for row in database.query("SELECT * FROM onceward_worker")] == ["live"]


def test_another_groups_requests_are_kept(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    name = ended(journal, database)
    assert open_journal(group="another").prune(0, 10).requests == 0
    assert left(database) == {name}


def test_a_failure_is_kept_until_its_dead_letter_is_written(
    journal: Journal, database: Database
) -> None:
    name = died(journal, database)
    assert journal.prune(DAY_MS, 10).requests == 0
    assert left(database) == {name}
    age(database, "dead_letter_at", request_id=name)
    assert journal.prune(DAY_MS, 10).requests == 1


@pytest.mark.parametrize(
    ("lettered", "is_kept"),
    [
        (LetteredTopics(others=frozenset({"payments"})), False),
        (LetteredTopics(others=frozenset({"refunds"})), True),
        (LetteredTopics(by_default=False), False),
        (LetteredTopics(by_default=False, others=frozenset({"payments"})), True),
    ],
)
def test_where_nobody_writes_dead_letters_no_failure_waits_for_one(
    journal: Journal, database: Database, lettered: LetteredTopics, is_kept: bool
) -> None:
    died(journal, database)
    assert journal.prune(DAY_MS, 10, lettered=lettered).requests == (not is_kept)


def test_failures_of_dead_letters_wait_for_none(
    journal: Journal, database: Database, group: str
) -> None:
    name = died(journal, database)
    database.change(
        "UPDATE onceward_request SET topic = :topic WHERE request_id = :request_id",
        topic=f"payments.{group}.dlq",
        request_id=name,
    )
    assert journal.prune(DAY_MS, 10).requests == 1


@pytest.mark.parametrize(
    "read",
    [{"sent_at": -1}, {"sent_at": 1}, {"deadline_at": 1}],
    ids=["no time", "an old time, a longer deadline", "its own deadline"],
)
def test_a_record_that_was_forgotten_does_not_run_again_nor_is_it_said_not_to_have_run(
    journal: Journal, database: Database, read: dict[str, int]
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    for _ in range(2):
        applied = journal.apply(Work(claims=[claim(name)._replace(**read)]))  # type: ignore[arg-type]
        assert kinds(applied) == [VerdictKind.IN_DOUBT]
        (row,) = database.query("SELECT * FROM onceward_request")
        assert (row["state"], row["code"]) == (JournalState.IN_DOUBT, "FORGOTTEN")
        assert (row["claimed_at"], row["effect_at"]) == (None, None)


def test_what_redis_still_says_of_a_forgotten_request_makes_no_claim_that_a_sweep_would_run(
    journal: Journal, database: Database
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    again = claim(name)._replace(sent_at=-1)
    told = ToldRun(again, 2, JournalState.CLAIMED, f"gone{DISOWNED}")
    applied = journal.apply(Work(claims=[again], told_runs=[told]))
    assert (kinds(applied), journal.dead_claims(["payments"], 10)) == ([VerdictKind.IN_DOUBT], [])


@pytest.mark.parametrize(
    "later",
    [
        {"offset": 18},
        {"partition": 4},
        {"topic": "refunds"},
        {"sent_at": FAR},
        *(
            {"offset": 99, "sent_at": None, "first": first}
            for first in (
                FirstPlace("payments", 3, 17),
                FirstPlace("payments", 3, 18, -1),
                FirstPlace("payments", 4, 17, -1),
                FirstPlace("payments", 3, 17, FAR),
                FirstPlace("refunds", 3, 17, -1),
            )
        ),
    ],
    ids=str,
)
def test_what_was_not_forgotten_runs(
    journal: Journal, database: Database, later: dict[str, object]
) -> None:
    ended(journal, database)
    journal.prune(DAY_MS, 10)
    wish = claim(new_id())._replace(**{"sent_at": -1, **later})  # type: ignore[arg-type]
    assert kinds(journal.apply(Work(claims=[wish]))) == [VerdictKind.RUN]


def test_a_record_that_names_its_deadline_goes_by_that(
    journal: Journal, database: Database
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    assert kinds(journal.apply(Work(claims=[claim(name)]))) == [VerdictKind.RUN]


def test_a_resend_is_judged_by_the_partition_of_its_first_record(
    journal: Journal, database: Database
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    again = claim(name, attempt=2, offset=99)._replace(
        partition=5, first=FirstPlace("payments", 3, 17, -1)
    )
    assert kinds(journal.apply(Work(claims=[again]))) == [VerdictKind.IN_DOUBT]


def test_where_an_earlier_run_of_it_was_read_is_forgotten_as_well(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
    journal.apply(Work(claims=[claim(name, attempt=2)._replace(partition=5, offset=1)]))
    journal.apply(Work(finishes=[finish(name, 2)]))
    age(database, "deadline_at", request_id=name)
    age(database, "finished_at", request_id=name)
    journal.prune(DAY_MS, 10)
    again = journal.apply(Work(claims=[claim(name)._replace(sent_at=-1)]))
    assert kinds(again) == [VerdictKind.IN_DOUBT]


def test_until_when_is_forgotten_is_kept_by_partition_and_never_goes_back(
    journal: Journal, database: Database
) -> None:
    before = epoch_ms()
    for offset, deadline_at in ((40, 7), (20, 9), (30, 8)):
        name = new_id()
        journal.apply(Work(claims=[claim(name, offset=offset)]))
        journal.apply(Work(finishes=[finish(name)]))
        for column, value in (("deadline_at", deadline_at), ("finished_at", 1)):
            database.change(
                f'UPDATE onceward_request SET "{column}" = :value WHERE request_id = :name',
                value=value,
                name=name,
            )
        journal.prune(DAY_MS, 10)
    (mark,) = database.query("SELECT * FROM onceward_forgotten")
    assert (mark["topic"], mark["partition"]) == ("payments", 3)
    assert (mark["next_offset"], mark["deadline_at"]) == (41, 9)
    assert mark["pruned_at"] >= before - 1000


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (JournalState.FAILED, (VerdictKind.IN_DOUBT, "IN_DOUBT", "FORGOTTEN")),
        (JournalState.RETRYING, (VerdictKind.IN_DOUBT, "IN_DOUBT", "FORGOTTEN")),
        (JournalState.IN_DOUBT, (VerdictKind.IN_DOUBT, "IN_DOUBT", "FORGOTTEN")),
        (JournalState.SUCCEEDED, (VerdictKind.ANSWERED, "SUCCEEDED", None)),
        (JournalState.SKIPPED, (VerdictKind.ANSWERED, "SKIPPED", None)),
    ],
)
def test_what_a_worker_remembers_of_a_forgotten_request_counts_only_where_nothing_can_have_followed(
    journal: Journal,
    database: Database,
    state: JournalState,
    found: tuple[VerdictKind, str, str | None],
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    again = claim(name)._replace(deadline_at=1)
    delay_ms = 0 if state == JournalState.RETRYING else None
    end = finish(name, 1, state, resend=state == JournalState.FAILED)._replace(delay_ms=delay_ms)
    remembered = OwnRun(again, 1, entered=True, finish=end)
    for one in (again, again._replace(offset=again.offset + 1, deadline_at=FAR, sent_at=-1)):
        applied = journal.apply(Work(claims=[one], own_runs=[remembered]))
        assert kinds(applied) == [found[0]]
        (row,) = database.query("SELECT * FROM onceward_request")
        assert (row["state"], row["code"]) == found[1:]
        assert (row["generation"], row["resend"]) == (1, 0)


def test_a_run_in_hand_is_none_that_was_forgotten(journal: Journal, database: Database) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    ours = OwnRun(claim(name)._replace(deadline_at=1), 1, entered=True, finish=None)
    (restored,) = journal.apply(Work(own_runs=[ours])).restored
    assert (restored.request_id, restored.state) == (name, JournalState.CLAIMED)


def test_a_run_that_no_child_took_is_not_granted_again_where_its_request_was_pruned(
    journal: Journal, database: Database
) -> None:
    name = ended(journal, database)
    journal.prune(DAY_MS, 10)
    late = claim(name)._replace(deadline_at=1)
    ours = OwnRun(late, 2, entered=False, finish=None, is_begun=False)
    applied = journal.apply(Work(claims=[late], own_runs=[ours]), tried=[name])
    assert (kinds(applied), applied.restored) == ([VerdictKind.IN_DOUBT], ())
