"""The requests of the same key after a failure, on both databases."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import pytest
from sqlalchemy import insert, select

from consumer.journal import Journal, JournalState, Work
from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from consumer.journal.redrive.later_requests import (
    MOST_NAMED,
    MOST_STRETCHES,
    LaterRequests,
    time_slices,
)
from consumer.journal.redrive.redrive_rule import RedriveCandidate, is_discarded
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.journal.tables import action, request
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import SHA, claim, finish, new_id

HOUR_MS = 3_600_000


@pytest.fixture
def later(database: Database, group: str) -> Iterator[LaterRequests]:
    with LaterRequests(database.url, group=group) as made:
        yield made


def ended(
    journal: Journal, state: JournalState, *, key: bytes | None = b"key", resend: bool = False
) -> str:
    """Let a new request end; return its id."""
    name = new_id()
    due = time.time_ns() // 1_000_000 + HOUR_MS
    journal.apply(Work(claims=[claim(name, key=key, deadline_at=due)]))
    journal.apply(Work(finishes=[finish(name, state=state, resend=resend)]))
    return name


def test_only_later_requests_of_the_same_key_are_named(
    journal: Journal, later: LaterRequests, database: Database
) -> None:
    before = ended(journal, JournalState.SUCCEEDED)
    failed = ended(journal, JournalState.FAILED)
    database.change(
        "UPDATE onceward_request SET claimed_at = claimed_at - 1000 WHERE request_id = :id",
        id=before,
    )
    without_key = ended(journal, JournalState.FAILED, key=None)
    good = ended(journal, JournalState.SUCCEEDED)
    last = ended(journal, JournalState.SUCCEEDED, key=b"other")
    elsewhere = ended(journal, JournalState.SUCCEEDED)
    database.change(
        "UPDATE onceward_request SET topic = 'refunds' WHERE request_id = :id", id=elsewhere
    )
    assert later.of([failed, without_key, last, good, "nobody"]) == ({failed: [good]}, True, {}, {})
    assert later.of([]) == ({}, True, {}, {})
    with LaterRequests(database.url, group="another") as others:
        assert others.of([failed]) == ({}, True, {}, {})


@pytest.mark.parametrize("state", [JournalState.IN_DOUBT, JournalState.SUCCEEDED])
def test_a_doubt_about_a_request_that_was_pruned_counts_since_it_is_one(
    journal: Journal, later: LaterRequests, database: Database, state: JournalState
) -> None:
    before, failed, pruned = (ended(journal, one) for one in (state, JournalState.FAILED, state))
    never_claimed = "UPDATE onceward_request SET claimed_at = NULL WHERE request_id = :id"
    for name in (before, pruned):
        database.change(never_claimed, id=name)
    earlier = "UPDATE onceward_request SET finished_at = finished_at - 1000 WHERE request_id = :id"
    database.change(earlier, id=before)
    found = later.of([failed])
    named = found.of if state is JournalState.SUCCEEDED else found.undecided
    assert named == {failed: [pruned]}


def test_later_requests_that_run_or_are_in_doubt_are_named_apart(
    journal: Journal, later: LaterRequests
) -> None:
    failed = ended(journal, JournalState.FAILED)
    due = time.time_ns() // 1_000_000 + HOUR_MS
    running = new_id()
    journal.apply(Work(claims=[claim(running, key=b"key", deadline_at=due)]))
    doubt = ended(journal, JournalState.IN_DOUBT)
    found = later.of([failed])
    assert found.names_any and not found.of
    assert {*found.undecided[failed]} == {running, doubt}


def decided(database: Database, group: str, name: str, *, is_undone: bool = False) -> None:
    """Let a person discard a failure, and perhaps open its case again."""
    with closing(PersonDecisions(database.url, group=group)) as decisions:
        decisions.discard([RedriveCandidate(name, None, SHA, 0)], by="ann", reason="done by hand")
        if is_undone:
            decisions.undo_discard([name], by="ann", reason="it was not")


def test_a_later_failure_that_is_open_may_be_sent_back_too(
    journal: Journal,
    later: LaterRequests,
    database: Database,
    group: str,
) -> None:
    names = failed, discarded, undone, refused = [
        ended(journal, JournalState.FAILED) for _ in range(4)
    ]
    for at, name in enumerate(names):
        # Two may be of the same millisecond.
        database.change(
            "UPDATE onceward_request SET claimed_at = claimed_at + :ms, finished_at = finished_at"
            " + :ms + 1, deadline_at = deadline_at + :ms WHERE request_id = :id",
            ms=1000 * at,
            id=name,
        )
    decided(database, group, discarded)
    decided(database, group, undone, is_undone=True)
    database.change(
        "UPDATE onceward_request SET claimed_at = NULL WHERE request_id = :id", id=refused
    )
    found = later.of([failed, undone])
    assert found.names_any and not found.of and not found.undecided
    # Of two that are sent back together, the earlier one names the later one.
    assert found.failed == {failed: [undone, refused], undone: [refused]}
    assert later.of([refused]) == ({}, True, {}, {})


def copies(
    database: Database, of: str, names: Sequence[str], keys: Sequence[bytes], *, after_ms: int
) -> None:
    """Plant failures that are as another one, so much later, of these keys."""
    times = ("claimed_at", "finished_at", "deadline_at")
    with database.engine.begin() as connection:
        found = connection.execute(select(request).where(request.c.request_id == of))
        row = dict(found.mappings().one())
        row |= {name: row[name] + after_ms for name in times}
        own = [
            {"request_id": name, "message_key": key} for name, key in zip(names, keys, strict=True)
        ]
        connection.execute(insert(request), [row | one for one in own])


def acted(database: Database, group: str, acts: Iterable[tuple[str, str, int | None]]) -> None:
    """Plant actions: of each the request, the kind, and the generation."""
    given = {"group": group, "by": "ann", "at": 1}
    rows = [
        given | {"request_id": name, "action": kind, "generation": generation}
        for name, kind, generation in acts
    ]
    with database.engine.begin() as connection:
        connection.execute(insert(action), rows)


def test_an_open_failure_is_named_behind_however_many_that_are_discarded(
    journal: Journal, later: LaterRequests, database: Database, group: str
) -> None:
    failed = ended(journal, JournalState.FAILED)
    names = [f"discarded-{at}" for at in range(6000)]
    copies(database, failed, names, [b"key"] * len(names), after_ms=1000)
    copies(database, failed, ["open"], [b"key"], after_ms=2000)
    acted(database, group, [(name, ActionKind.DISCARD, 1) for name in names])
    assert later.of([failed]) == ({}, True, {}, {failed: ["open"]})


def test_a_later_failure_is_open_where_the_rule_of_redrives_has_it_open(
    journal: Journal, later: LaterRequests, database: Database, group: str
) -> None:
    failed = ended(journal, JournalState.FAILED)
    kinds = (ActionKind.DISCARD, ActionKind.UNDO, ActionKind.CANCEL, ActionKind.REDRIVE)
    steps = [*itertools.product(kinds, (1, 2, None))]
    stories = [one for length in range(4) for one in itertools.product(steps, repeat=length)]
    keys = [str(at).encode() for at in range(len(stories))]
    early = [f"early-{at}" for at in range(len(stories))]
    late = [f"late-{at}" for at in range(len(stories))]
    copies(database, failed, early, keys, after_ms=0)
    copies(database, failed, late, keys, after_ms=1000)
    # By turns, so that those of one request do not lie beside each other.
    told = [*zip(late, stories, strict=True)]
    for turn in range(3):
        acted(database, group, [(name, *one[turn]) for name, one in told if turn < len(one)])
    with Lookup(database.url, group=group) as lookup:
        rows, _ = lookup.rows(late)
        actions = lookup.actions(late)
    named = later.of(early).failed
    for first, last in zip(early, late, strict=True):
        of_it, row = actions.get(last, []), rows[last]
        discards = [at for at, one in enumerate(of_it) if one.action == ActionKind.DISCARD]
        # A failure that is discarded is not discarded once more.
        if not any(is_discarded(of_it[:at], row) and of_it[at].generation == 1 for at in discards):
            assert named.get(first, []) == ([] if is_discarded(of_it, row) else [last]), of_it


def test_a_failure_on_its_way_is_undecided_also_where_it_was_the_earlier_one(
    journal: Journal, later: LaterRequests, database: Database
) -> None:
    sent_back = ended(journal, JournalState.FAILED, resend=True)
    over = ended(journal, JournalState.FAILED, resend=True)
    database.change(
        "UPDATE onceward_request SET claimed_at = claimed_at - 1000 WHERE request_id <> 'none'"
    )
    failed = ended(journal, JournalState.FAILED)
    assert later.of([failed]).undecided == {failed: [sent_back, over]}
    assert later.of([sent_back]).failed == {sent_back: [failed]}
    database.change(
        "UPDATE onceward_request SET deadline_at = :at WHERE request_id = :id",
        id=over,
        at=time.time_ns() // 1_000_000 - 1,
    )
    assert later.of([failed]).undecided == {failed: [sent_back]}


def test_what_was_sent_back_is_named_however_old_its_failure_is(
    journal: Journal, later: LaterRequests, database: Database
) -> None:
    failed = ended(journal, JournalState.FAILED)
    other = ended(journal, JournalState.FAILED, resend=True)
    database.change(
        "UPDATE onceward_request SET claimed_at = claimed_at - :days, finished_at = finished_at"
        " - :days, deadline_at = deadline_at - :days WHERE request_id IN (:failed, :other)",
        days=8 * 24 * HOUR_MS,
        failed=failed,
        other=other,
    )
    assert later.of([failed]).failed == {failed: [other]}
    database.change(
        "UPDATE onceward_request SET deadline_at = :at WHERE request_id = :id",
        id=other,
        at=time.time_ns() // 1_000_000 + HOUR_MS,
    )
    assert later.of([failed]) == ({}, True, {failed: [other]}, {})


def test_a_success_between_two_failures_of_a_request_is_named(
    journal: Journal, later: LaterRequests
) -> None:
    failed = ended(journal, JournalState.FAILED, resend=True)
    good = ended(journal, JournalState.SUCCEEDED)
    due = time.time_ns() // 1_000_000 + HOUR_MS
    journal.apply(Work(claims=[claim(failed, attempt=2, deadline_at=due)]))
    journal.apply(Work(finishes=[finish(failed, 2, JournalState.FAILED)]))
    assert later.of([failed]).of == {failed: [good]}


def test_a_success_between_a_doubt_and_its_resolution_as_failed_is_named(
    journal: Journal, later: LaterRequests, database: Database, group: str
) -> None:
    doubt = ended(journal, JournalState.IN_DOUBT)
    good = ended(journal, JournalState.SUCCEEDED)
    database.change(
        "UPDATE onceward_request SET finished_at = finished_at - 9, claimed_at = claimed_at - 9"
    )
    with closing(PersonDecisions(database.url, group=group)) as decisions:
        decisions.resolve(
            doubt, has_succeeded=False, result=None, code="NONE", reason="a list", by="ann"
        )
    assert later.of([doubt]).of == {doubt: [good]}


def test_few_are_named_and_a_look_that_was_cut_is_said(
    journal: Journal, later: LaterRequests
) -> None:
    failed = ended(journal, JournalState.FAILED)
    good = [ended(journal, JournalState.SUCCEEDED) for _ in range(MOST_NAMED + 2)]
    found = later.of([failed])
    assert found.is_whole and len(found.of[failed]) == MOST_NAMED
    assert set(found.of[failed]) < set(good)
    assert not later.of([failed], most_read=2).is_whole


def test_many_failures_are_looked_at_together_and_nothing_twice() -> None:
    since = [at * 10 for at in range(1000)]
    found = list(time_slices(since, reach_ms=25))
    assert len(found) == MOST_STRETCHES
    assert found[0][1] == 9990 + 25 and found[-1][0] == -1
    assert all(newer[0] >= older[1] for newer, older in itertools.pairwise(found))
    assert list(time_slices([])) == []
