"""Which endings are told again when Redis came back empty, by whom, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from consumer.journal import Journal, JournalState, Work
from consumer.journal.losses.republish import (
    MARGIN_MS,
    SERVED_LIMIT,
    Republication,
    RestoreCursor,
    WhoseTurn,
)
from feedback.status import STORED, State
from tests.consumer.journal.conftest import Database, OpenLeases
from tests.consumer.journal.samples import claim, finish, new_id, refusal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TTL_MS: Mapping[State, int] = dict.fromkeys(STORED, DAY_MS)
Open = Callable[[str], Republication]


@pytest.fixture
def republication(database: Database, group: str) -> Iterator[Open]:
    """Yield a factory `republication(worker_id)`; what it opens is closed afterwards."""
    opened: list[Republication] = []

    def open_one(worker_id: str) -> Republication:
        opened.append(Republication(database.url, group=group, worker_id=worker_id))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def pages(
    one: Republication, *, ttl_ms: Mapping[State, int] = TTL_MS, limit: int = 500
) -> list[list[str]]:
    """Return the ids of all pages, in order."""
    found: list[list[str]] = []
    cursor: RestoreCursor | None = RestoreCursor()
    while cursor is not None:
        page = one.page(cursor, ttl_ms=ttl_ms, limit=limit)
        if page.rows or not cursor.of_doubts:
            found.append([row.request_id for row in page.rows])
        cursor = page.following
    return found


def ended(journal: Journal, *request_ids: str, deadline_at: int) -> None:
    """Let requests run and succeed."""
    journal.apply(Work(claims=[claim(one, deadline_at=deadline_at) for one in request_ids]))
    journal.apply(Work(finishes=[finish(one, result='"x"') for one in request_ids]))


# whose turn it is ----------------------------------------------------------------------------


def test_a_turn_is_had_by_one_worker_until_its_lease_is_over(
    republication: Open, open_leases: OpenLeases
) -> None:
    for worker_id in ("one", "two"):
        open_leases(worker_id).register(600.0)
    one, two = republication("one"), republication("two")
    assert one.take_turn("run-1") is WhoseTurn.MINE
    assert two.take_turn("run-1") is WhoseTurn.OTHERS
    assert one.take_turn("run-1") is WhoseTurn.MINE
    open_leases("one").release()
    assert two.take_turn("run-1") is WhoseTurn.MINE
    assert not one.end_turn("run-1")
    assert one.take_turn("run-1") is WhoseTurn.OTHERS


def test_a_turn_that_was_done_is_not_done_again_by_anybody(
    republication: Open, open_leases: OpenLeases
) -> None:
    open_leases("one").register(600.0)
    one, two = republication("one"), republication("two")
    assert one.take_turn("run-1") is WhoseTurn.MINE
    assert one.end_turn("run-1")
    assert [each.take_turn("run-1") for each in (one, two)] == [WhoseTurn.DONE, WhoseTurn.DONE]
    assert two.take_turn("run-2") is WhoseTurn.MINE
    assert two.end_turn("run-2")
    assert one.take_turn("run-1") is WhoseTurn.DONE


def test_a_turn_that_was_given_back_is_the_next_ones(
    republication: Open, open_leases: OpenLeases
) -> None:
    open_leases("one").register(600.0)
    one, two = republication("one"), republication("two")
    assert one.take_turn("run-1") is WhoseTurn.MINE
    assert one.end_turn(None)
    assert two.take_turn("run-1") is WhoseTurn.MINE


def test_what_is_remembered_stays_small(republication: Open, database: Database) -> None:
    one = republication("one")
    for number in range(SERVED_LIMIT + 3):
        assert one.take_turn(f"run-{number}") is WhoseTurn.MINE
        assert one.end_turn(f"run-{number}")
    assert one.take_turn(f"run-{SERVED_LIMIT + 2}") is WhoseTurn.DONE
    (row,) = database.query("SELECT value FROM onceward_meta WHERE name LIKE 'republish:%'")
    assert row["value"].count("run-") == SERVED_LIMIT


def test_groups_take_turns_for_themselves(database: Database, group: str) -> None:
    for name in (group, f"{group}-other"):
        one = Republication(database.url, group=name, worker_id="me")
        assert one.take_turn("run-1") is WhoseTurn.MINE
        assert one.end_turn("run-1")
        one.close()


# which endings -------------------------------------------------------------------------------


def test_all_endings_come_once_in_pages_the_latest_deadlines_first(
    journal: Journal, republication: Open, now_ms_of: Callable[[Database], int], database: Database
) -> None:
    now_ms = now_ms_of(database)
    by_deadline = [(new_id(), now_ms + HOUR_MS + offset) for offset in (0, 0, 0, 1, 2, 3, 3)]
    for request_id, deadline_at in by_deadline:
        ended(journal, request_id, deadline_at=deadline_at)
    wanted = [one for one, _ in sorted(by_deadline, key=lambda each: (each[1], each[0]))][::-1]
    for limit in (1, 2, 3, 7, 500):
        found = pages(republication("me"), limit=limit)
        assert [one for page in found for one in page] == wanted
        assert max(map(len, found)) <= limit


def test_only_what_ended_within_the_lifetime_of_a_status_comes(
    journal: Journal, republication: Open, now_ms_of: Callable[[Database], int], database: Database
) -> None:
    now_ms = now_ms_of(database)
    recent, old, running, refused, late = (new_id() for _ in range(5))
    ended(journal, recent, old, late, deadline_at=now_ms + HOUR_MS)
    journal.apply(Work(claims=[claim(running, deadline_at=now_ms + HOUR_MS)]))
    journal.apply(Work(refusals=[refusal(refused, deadline_at=now_ms + HOUR_MS)]))
    change = "UPDATE onceward_request SET finished_at = :ended WHERE request_id = :id"
    database.change(change, ended=now_ms - DAY_MS - 60_000, id=old)
    # It ended long after its deadline: a worker was missing for that long.
    change = "UPDATE onceward_request SET deadline_at = :deadline WHERE request_id = :id"
    database.change(change, deadline=now_ms - DAY_MS - MARGIN_MS + 60_000, id=late)
    (found,) = pages(republication("me"))
    assert sorted(found) == sorted([recent, refused, late])


def test_an_ending_comes_for_as_long_as_its_own_status_is_kept_and_a_doubt_until_it_is_resolved(
    journal: Journal, republication: Open, now_ms_of: Callable[[Database], int], database: Database
) -> None:
    now_ms = now_ms_of(database)
    succeeded, failed, doubt, old_doubt, told_again = (new_id() for _ in range(5))
    states = {failed: "FAILED", doubt: "IN_DOUBT", old_doubt: "IN_DOUBT"}
    for one in (succeeded, failed, doubt, old_doubt, told_again):
        journal.apply(Work(claims=[claim(one, deadline_at=now_ms + HOUR_MS)]))
        state = JournalState(states.get(one, "SUCCEEDED"))
        journal.apply(Work(finishes=[finish(one, state=state)]))
    change = "UPDATE onceward_request SET finished_at = :ended WHERE request_id = :id"
    for one in (succeeded, failed, doubt, old_doubt):
        database.change(change, ended=now_ms - 2 * HOUR_MS, id=one)
    change = "UPDATE onceward_request SET deadline_at = :deadline WHERE request_id = :id"
    database.change(change, deadline=now_ms - 400 * DAY_MS, id=old_doubt)
    for kept, lost in ((State.SUCCEEDED, succeeded), (State.FAILED, failed)):
        ttl_ms = {**TTL_MS, kept: HOUR_MS, State.IN_DOUBT: 1000 * DAY_MS}
        for limit in (1, 500):
            found = pages(republication("me"), ttl_ms=ttl_ms, limit=limit)
            wanted = {succeeded, failed, doubt, old_doubt, told_again} - {lost}
            assert sorted(one for page in found for one in page) == sorted(wanted)


def test_a_page_of_which_nothing_is_told_is_not_the_last(
    journal: Journal, republication: Open, now_ms_of: Callable[[Database], int], database: Database
) -> None:
    now_ms = now_ms_of(database)
    running = [new_id() for _ in range(4)]
    journal.apply(Work(claims=[claim(one, deadline_at=now_ms + 2 * HOUR_MS) for one in running]))
    request_id = new_id()
    ended(journal, request_id, deadline_at=now_ms + HOUR_MS)
    assert pages(republication("me"), limit=2) == [[], [], [request_id]]


def test_rows_come_as_the_journal_has_them(
    journal: Journal, republication: Open, now_ms_of: Callable[[Database], int], database: Database
) -> None:
    request_id = new_id()
    ended(journal, request_id, deadline_at=now_ms_of(database) + HOUR_MS)
    (row,) = republication("me").page(RestoreCursor(), ttl_ms=TTL_MS, limit=500).rows
    assert (row.request_id, row.state, row.result) == (request_id, JournalState.SUCCEEDED, '"x"')
    assert row.finished_at is not None


def test_other_groups_do_not_come(
    journal: Journal, database: Database, now_ms_of: Callable[[Database], int]
) -> None:
    ended(journal, new_id(), deadline_at=now_ms_of(database) + HOUR_MS)
    other = Republication(database.url, group="another", worker_id="me")
    assert pages(other) == [[]]
    other.close()
