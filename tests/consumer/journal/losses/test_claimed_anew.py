"""Two runs of one generation: the database has lost a claim, and a peer has made it anew.

The second run cannot be helped: its worker found no trace of the first. But none of the two speaks
for the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from consumer.journal import (
    EffectMark,
    Finish,
    FinishKind,
    Journal,
    JournalState,
    OwnRun,
    Row,
    TakeoverKind,
    VerdictKind,
    Work,
)
from consumer.journal.losses.lost_rows import AllowedBy, why_followed
from consumer.journal.transactional import Transactions
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import (
    OTHER_SHA,
    claim,
    finish,
    kinds,
    new_id,
    park_dead,
    row_of,
    takeover,
)

NOTHING_CAME = (JournalState.FAILED, JournalState.RETRYING, JournalState.SKIPPED)
ACTED = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)


class Twice:
    """A request that `me` has claimed, of which the database forgot, and `peer` has claimed anew.

    Attributes:
        row: the claim that stands.
    """

    def __init__(
        self, me: Journal, peer: Journal, database: Database, *, sha: str, effect_kind: str
    ) -> None:
        self.me, self.peer, self.name = me, peer, new_id()
        self._wish = claim(self.name, effect_kind=effect_kind)
        mine = row_of(me.apply(Work(claims=[self._wish])))
        database.change("DELETE FROM onceward_request WHERE request_id = :n", n=self.name)
        self._anew = claim(self.name, sha=sha, effect_kind=effect_kind)
        assert kinds(peer.apply(Work(claims=[self._anew]))) == [VerdictKind.RUN]
        # Two claims of one millisecond would pass for one, and the way there takes longer.
        database.change(
            "UPDATE onceward_request SET claimed_at = claimed_at + 5 WHERE request_id = :n",
            n=self.name,
        )
        self._claimed_at = mine.claimed_at
        self.row = self.stands

    @property
    def stands(self) -> Row:
        (row,) = self.peer.rows([self.name])
        return row

    def ends(self, state: str, *, by: Journal | None = None) -> Finish:
        """Return how the run of a worker ends."""
        own = by is None or by is self.me
        claimed_at = self._claimed_at if own else self.row.claimed_at
        delay_ms = 5 if state == JournalState.RETRYING else None
        return finish(
            self.name,
            state=state,
            delay_ms=delay_ms,
            claimed_at=claimed_at,
            of=self._wish if own else self._anew,
        )

    def run(self, end: Finish | None, *, entered: bool = False) -> OwnRun:
        """Return the run of `me`, as that worker knows it."""
        wish = self._wish._replace(claimed_at=self._claimed_at)
        return OwnRun(wish, 1, entered=entered, finish=end)

    def finished(self, state: str, *, by: Journal | None = None) -> FinishKind:
        """Write how a run ended; return the result."""
        journal = by or self.me
        return journal.apply(Work(finishes=[self.ends(state, by=by)])).finished[self.name, 1].kind


@pytest.fixture
def twice(journal: Journal, open_journal: OpenJournal, database: Database) -> Twice:
    """Return such a request of a marked handler."""
    return Twice(journal, open_journal("peer"), database, sha="a" * 64, effect_kind="marked")


@pytest.mark.parametrize("state", NOTHING_CAME)
def test_that_nothing_came_of_one_run_leaves_the_other_one_as_it_is(
    twice: Twice, state: str
) -> None:
    assert twice.finished(state) is FinishKind.STALE
    assert twice.stands == twice.row
    # Nor is that end put in its place by the worker's memory of it.
    assert twice.me.apply(Work(own_runs=[twice.run(twice.ends(state))])).restored == ()
    assert twice.stands == twice.row
    mark = Work(effects=[EffectMark(twice.name, 1)])
    assert twice.me.apply(mark).effects == frozenset()
    assert twice.peer.apply(mark).effects == {(twice.name, 1)}
    assert twice.finished("SUCCEEDED", by=twice.peer) is FinishKind.WRITTEN


@pytest.mark.parametrize("state", ACTED)
def test_an_end_that_may_have_acted_comes_over_the_other_claim_at_once_and_stops_that_run(
    twice: Twice, database: Database, state: str
) -> None:
    end = twice.ends(state)
    applied = twice.me.apply(Work(finishes=[end]))
    # Not a moment later: the other run would be let into its effect, or its word would stand.
    assert twice.peer.apply(Work(effects=[EffectMark(twice.name, 1)])).effects == frozenset()
    for word in NOTHING_CAME:
        assert twice.finished(word, by=twice.peer) is FinishKind.STALE
    row, result = twice.stands, applied.finished[twice.name, 1]
    assert (result.kind, result.row, applied.restored) == (FinishKind.WRITTEN, None, (row,))
    facts = (row.state, row.owner, row.claimed_at, row.effect_at)
    assert facts == (state, "me", end.claimed_at, end.claimed_at)
    (kept,) = database.query("SELECT * FROM onceward_run WHERE request_id = :n", n=twice.name)
    told = (kept["owner"], kept["claimed_at"], kept["generation"], kept["outcome"])
    assert told == ("peer", twice.row.claimed_at, 1, "WORKER_DIED")
    assert kept["allowed_by"] is None
    assert twice.me.apply(Work(own_runs=[twice.run(end)])).restored == ()
    assert twice.stands == row


def test_a_doubt_over_the_other_claim_is_one_about_both_runs_and_tells_the_worker_so(
    twice: Twice,
) -> None:
    end = twice.ends("IN_DOUBT")._replace(code="TIMEOUT", message="after 5 s")
    result = twice.me.apply(Work(finishes=[end])).finished[twice.name, 1]
    row = twice.stands
    assert (row.code, "peer" in (row.message or "")) == ("CLAIMED_TWICE", True)
    assert (row.message or "").endswith("TIMEOUT: after 5 s")
    assert result.resolution == end._replace(code=row.code, message=row.message)


def test_a_doubt_that_is_written_again_over_the_other_claim_is_one_about_both_runs(
    twice: Twice,
) -> None:
    end = twice.ends("IN_DOUBT")._replace(code="TIMEOUT", message="after 5 s")
    (row,) = twice.me.apply(Work(own_runs=[twice.run(end)])).restored
    assert (row.state, row.code) == ("IN_DOUBT", "CLAIMED_TWICE")
    assert (row.message or "").endswith("TIMEOUT: after 5 s")


@pytest.mark.parametrize("ends", [None, *NOTHING_CAME])
def test_a_run_that_may_have_acted_and_goes_on_is_in_doubt_over_the_other_claim(
    twice: Twice, ends: str | None
) -> None:
    assert twice.me.apply(Work(own_runs=[twice.run(None)])).restored == ()
    (row,) = twice.me.apply(Work(own_runs=[twice.run(None, entered=True)])).restored
    facts = (row.state, row.code, row.owner, row.claimed_at)
    assert facts == ("IN_DOUBT", "CLAIMED_TWICE", "me", twice.ends("FAILED").claimed_at)
    assert "peer" in (row.message or "")
    assert twice.me.apply(Work(own_runs=[twice.run(None, entered=True)])).restored == ()
    assert twice.peer.apply(Work(effects=[EffectMark(twice.name, 1)])).effects == frozenset()
    if ends is not None:
        # The other run may act yet, or may have acted: of neither the word ends the doubt.
        assert twice.finished(ends) is FinishKind.STALE
        assert twice.finished(ends, by=twice.peer) is FinishKind.STALE
        assert twice.stands == row
    assert twice.finished("SUCCEEDED") is FinishKind.WRITTEN
    assert twice.stands.state == "SUCCEEDED"


def test_a_success_settles_the_doubt_about_the_other_run(twice: Twice, database: Database) -> None:
    assert twice.finished("IN_DOUBT") is FinishKind.WRITTEN
    assert twice.finished("SUCCEEDED", by=twice.peer) is FinishKind.WRITTEN
    row = twice.stands
    assert (row.state, row.owner, row.claimed_at) == ("SUCCEEDED", "peer", twice.row.claimed_at)
    # No rule let one of the two runs follow the other, so the history allows neither.
    kept = database.query("SELECT * FROM onceward_run WHERE request_id = :n", n=twice.name)
    assert [one["allowed_by"] for one in kept] == [None, None]
    # It is over now, whoever asks again.
    assert twice.finished("SUCCEEDED") is FinishKind.STALE
    assert twice.me.apply(Work(own_runs=[twice.run(twice.ends("SUCCEEDED"))])).restored == ()
    assert twice.stands == row


def test_the_later_of_two_claims_of_one_generation_was_not_granted_after_the_other(
    twice: Twice,
) -> None:
    later = claim(twice.name)._replace(claimed_at=twice.row.claimed_at)
    first = twice.row._replace(claimed_at=twice.ends("FAILED").claimed_at)
    assert why_followed(first, later, 2) is AllowedBy.GRANTED
    assert why_followed(first, later, 1) is None


@pytest.mark.parametrize("state", NOTHING_CAME)
def test_that_nothing_came_of_one_run_resolves_no_doubt_about_the_other(
    twice: Twice, state: str
) -> None:
    (doubt,) = park_dead(twice.me, 10)
    assert (doubt.state, doubt.owner) == (JournalState.IN_DOUBT, "peer")
    assert twice.finished(state) is FinishKind.STALE
    assert twice.me.apply(Work(own_runs=[twice.run(twice.ends(state))])).restored == ()
    assert twice.stands == doubt
    # Whose run it is may still say so.
    assert twice.finished("FAILED", by=twice.peer) is FinishKind.WRITTEN


@pytest.mark.parametrize("is_over", [False, True])
def test_a_doubt_about_the_other_run_becomes_one_about_both_where_this_one_may_have_acted(
    twice: Twice, is_over: bool
) -> None:
    (doubt,) = park_dead(twice.me, 10)
    assert (doubt.state, doubt.code, doubt.owner) == ("IN_DOUBT", "WORKER_DIED", "peer")
    if is_over:
        assert twice.finished("IN_DOUBT") is FinishKind.WRITTEN
    else:
        twice.me.apply(Work(own_runs=[twice.run(None, entered=True)]))
    row = twice.stands
    assert (row.state, row.code, row.owner) == ("IN_DOUBT", "CLAIMED_TWICE", "me")
    # Whose run was in doubt was only slow, and nothing came of it: the other one may have acted.
    assert twice.finished("FAILED", by=twice.peer) is FinishKind.STALE
    assert twice.finished("IN_DOUBT", by=twice.peer) is FinishKind.STALE
    assert twice.stands == row
    resend = claim(twice.name, attempt=2)
    assert kinds(twice.peer.apply(Work(claims=[resend]))) == [VerdictKind.IN_DOUBT]


@pytest.mark.parametrize("state", [*NOTHING_CAME, *ACTED])
def test_the_request_of_another_payload_hears_nothing_of_a_run_of_its_id(
    journal: Journal, open_journal: OpenJournal, database: Database, state: str
) -> None:
    peer = open_journal("peer")
    twice = Twice(journal, peer, database, sha=OTHER_SHA, effect_kind="marked")
    assert twice.finished(state) is FinishKind.STALE
    assert twice.me.apply(Work(own_runs=[twice.run(twice.ends(state))])).restored == ()
    assert twice.stands == twice.row


@pytest.fixture
def transactions(database: Database, group: str) -> Iterator[Transactions]:
    """Yield the transactions of the children of `me`, beside a user's table `seat`."""
    database.change("CREATE TABLE seat (name TEXT)")
    with closing(Transactions(database.url, group, "me")) as opened:
        yield opened


def test_a_transaction_leaves_nothing_where_a_peer_has_claimed_its_run_anew(
    journal: Journal, open_journal: OpenJournal, database: Database, transactions: Transactions
) -> None:
    peer = open_journal("peer")
    twice = Twice(journal, peer, database, sha="a" * 64, effect_kind="transactional")
    with transactions.begin() as tx:
        tx.connection.execute(text("INSERT INTO seat VALUES ('1A')"))
        assert not tx.finish(twice.name, 1, JournalState.SUCCEEDED, None, None, None, False)
    assert database.query("SELECT * FROM seat") == []
    assert twice.stands == twice.row


@pytest.mark.parametrize("state", [*NOTHING_CAME, *ACTED])
def test_the_end_of_a_run_is_written_although_a_peer_has_taken_its_claim_over_to_ask_about_it(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases, state: str
) -> None:
    name, peer = new_id(), open_journal("peer")
    mine = row_of(journal.apply(Work(claims=[claim(name, effect_kind="external")])))
    open_leases("peer").register(600.0)
    wish = takeover(name, 1, TakeoverKind.ASK, "WORKER_DIED", "external")
    assert peer.apply(Work(takeovers=[wish])).takeovers[name, 1].kind == "GRANTED"
    (asked,) = peer.rows([name])
    assert (asked.owner, asked.claimed_at) == ("peer", mine.claimed_at)
    delay_ms = 5 if state == JournalState.RETRYING else None
    end = finish(name, state=state, claimed_at=mine.claimed_at, delay_ms=delay_ms)
    result = journal.apply(Work(finishes=[end])).finished[name, 1]
    (row,) = journal.rows([name])
    assert (result.kind, result.due_at, row.state) == (FinishKind.WRITTEN, row.due_at, state)
