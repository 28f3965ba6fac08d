"""Own runs that the database has lost are written again; what nobody knows of is given up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from sqlalchemy import false

from consumer.journal import (
    DeadEnd,
    EffectMark,
    Finish,
    FinishKind,
    Journal,
    JournalState,
    OwnRun,
    Row,
    Skip,
    TakeoverKind,
    ToldRun,
    VerdictKind,
    Work,
    commits,
)
from consumer.journal.errors import Contended
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses import restoring
from consumer.journal.sweeps import sweep
from feedback.status import DISOWNED
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import (
    OTHER_SHA,
    PAST,
    claim,
    finish,
    kinds,
    new_id,
    refusal,
    row_of,
    takeover,
)

RUN, ANSWERED, RUNNING = VerdictKind.RUN, VerdictKind.ANSWERED, VerdictKind.RUNNING


def own(name: str, generation: int = 1, *, ends: bool = True, state: str = "SUCCEEDED") -> OwnRun:
    end = finish(name, generation, state, result='{"a":1}') if ends else None
    return OwnRun(claim(name), generation, entered=True, finish=end)


def lose(database: Database, name: str) -> None:
    """Lose all commits about a request."""
    database.change("DELETE FROM onceward_request WHERE request_id = :name", name=name)


def lose_finish(database: Database, name: str) -> None:
    """Lose the commits behind the claim."""
    database.change(
        "UPDATE onceward_request SET state = 'CLAIMED', finished_at = NULL, result = NULL,"
        " effect_at = NULL WHERE request_id = :name",
        name=name,
    )


@pytest.mark.parametrize("how", [lose, lose_finish])
def test_what_ended_here_and_is_lost_is_written_again_before_a_resend_is_looked_at(
    journal: Journal, database: Database, how: object
) -> None:
    name = new_id()
    assert kinds(journal.apply(Work(claims=[claim(name)]))) == [RUN]
    journal.apply(Work(finishes=[finish(name, result='{"a":1}')]))
    assert callable(how)
    how(database, name)
    applied = journal.apply(Work(claims=[claim(name, attempt=2)], own_runs=[own(name)]))
    assert kinds(applied) == [ANSWERED]
    (restored,) = applied.restored
    assert (restored.state, restored.result, restored.generation) == ("SUCCEEDED", '{"a":1}', 1)
    again = journal.apply(Work(claims=[claim(name, attempt=3)], own_runs=[own(name)]))
    assert (kinds(again), again.restored) == ([ANSWERED], ())


def test_a_finish_that_finds_no_row_is_lost_and_inserts_the_ending(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    lose(database, name)
    (result,) = journal.apply(Work(finishes=[finish(name)])).finished.values()
    assert result.kind is FinishKind.LOST
    journal.apply(Work(own_runs=[own(name)]))
    (row,) = database.query("SELECT * FROM onceward_request WHERE request_id = :n", n=name)
    facts = ("state", "generation", "owner", "topic", "offset", "payload_sha256", "published_at")
    expected = ("SUCCEEDED", 1, "me", "payments", 17, "a" * 64, None)
    assert tuple(row[one] for one in facts) == expected
    assert row["effect_at"] and row["claimed_at"] and row["finished_at"]


def test_a_later_run_that_is_lost_comes_over_the_row_that_stood_before_it(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
    ends = own(name, 2)._replace(claim=claim(name, attempt=2))
    applied = journal.apply(Work(claims=[claim(name, attempt=3)], own_runs=[ends]))
    assert kinds(applied) == [ANSWERED]
    assert (row_of(applied).generation, row_of(applied).attempt) == (2, 2)
    (kept,) = database.query("SELECT generation, outcome FROM onceward_run")
    assert kept == {"generation": 1, "outcome": "FAILED"}


def test_a_run_in_hand_whose_claim_is_lost_gets_it_back_and_none_beside_it(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    lose(database, name)
    beside = journal.apply(Work(claims=[claim(name, attempt=2)]), held=[(name, 1)])
    assert (kinds(beside), beside.verdicts[0].row) == ([RUNNING], None)
    journal.apply(Work(own_runs=[own(name, ends=False)]))
    (claimed,) = journal.own_claims()
    assert (claimed.request_id, claimed.generation, claimed.state) == (name, 1, "CLAIMED")
    assert claimed.effect_at is not None
    (result,) = journal.apply(Work(finishes=[finish(name)])).finished.values()
    assert result.kind is FinishKind.WRITTEN


def test_an_effect_whose_mark_is_lost_is_marked_again_before_anything_goes_on(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    ours = own(name, ends=False)
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, "CHILD_DIED")
    applied = journal.apply(Work(takeovers=[wish], own_runs=[ours]))
    assert applied.takeovers[name, 1].kind == "DOUBTFUL"
    (row,) = database.query("SELECT generation, state, effect_at FROM onceward_request")
    assert (row["generation"], row["state"]) == (1, "CLAIMED") and row["effect_at"] is not None
    not_entered = ours._replace(entered=False)
    assert journal.apply(Work(own_runs=[ours, not_entered])).restored == ()


LOST_CLAIM = "CLAIM_LOST"


@pytest.mark.parametrize("effect_kind", ["marked", "transactional"])
def test_a_run_that_was_refused_its_effect_since_its_claim_is_gone_is_followed_by_another(
    journal: Journal, database: Database, effect_kind: str
) -> None:
    name = new_id()
    wanted = claim(name, effect_kind=effect_kind)
    journal.apply(Work(claims=[wanted]))
    lose(database, name)
    assert (
        journal.apply(Work(effects=[EffectMark(name, 1)]), held=[(name, 1)]).effects == frozenset()
    )
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, LOST_CLAIM)
    ours = OwnRun(wanted, 1, entered=False, finish=None)
    applied = journal.apply(Work(takeovers=[wish], own_runs=[ours]), held=[(name, 1)])
    assert applied.takeovers[name, 1].kind == "GRANTED"
    (claimed,) = journal.own_claims()
    assert (claimed.generation, claimed.effect_at) == (2, None)
    assert journal.apply(Work(effects=[EffectMark(name, 2)])).effects == {(name, 2)}


def test_a_run_that_was_refused_its_effect_since_a_peer_has_it_is_followed_by_none(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases
) -> None:
    name = new_id()
    open_leases("peer").register(60)
    open_journal("peer").apply(Work(claims=[claim(name)]))
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, LOST_CLAIM)
    ours = own(name, ends=False)._replace(entered=False)
    applied = journal.apply(Work(takeovers=[wish], own_runs=[ours]), held=[(name, 1)])
    assert (applied.takeovers[name, 1].kind, applied.restored) == ("STALE", ())


def test_a_run_that_was_refused_its_effect_is_not_followed_where_its_client_was_told_an_end(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, LOST_CLAIM)
    told = ToldRun(claim(name), 2, JournalState.SUCCEEDED, "peer")
    applied = journal.apply(Work(takeovers=[wish], told_runs=[told]), held=[(name, 1)])
    assert applied.takeovers[name, 1].kind == "STALE"
    (row,) = database.query("SELECT owner, generation, state FROM onceward_request")
    assert row == {"owner": "peer", "generation": 2, "state": "SUCCEEDED"}


@pytest.mark.parametrize("stands", [True, False])
def test_a_run_that_is_written_again_keeps_its_policy_and_the_key_it_ran_under(
    journal: Journal, database: Database, stands: bool
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)._replace(in_doubt="retry_same_key")]))
    if not stands:
        lose(database, name)
    ours = claim(name)._replace(in_doubt="park", voids=2)
    journal.apply(Work(own_runs=[own(name, 3, ends=False)._replace(claim=ours)]))
    (row,) = database.query("SELECT generation, in_doubt, voids FROM onceward_request")
    assert row == {"generation": 3, "in_doubt": "park", "voids": 2}


def _untaken(name: str, generation: int = 2) -> OwnRun:
    return OwnRun(claim(name), generation, entered=False, finish=None, is_begun=False)


@pytest.mark.parametrize("stands", [True, False])
def test_a_lost_run_that_no_child_took_is_written_over_our_own_earlier_one_or_none(
    journal: Journal, stands: bool
) -> None:
    name = new_id()
    if stands:
        journal.apply(Work(claims=[claim(name)]))
    applied = journal.apply(Work(claims=[claim(name)], own_runs=[_untaken(name)]), tried=[name])
    assert (kinds(applied), row_of(applied).generation) == ([RUN], 2)


def test_a_lost_run_that_no_child_took_hides_no_end_of_an_earlier_one_where_it_gives_way(
    journal: Journal, open_journal: OpenJournal
) -> None:
    name = new_id()
    open_journal("peer").apply(Work(claims=[claim(name)]))
    (row,) = journal.apply(Work(own_runs=[own(name), _untaken(name)])).restored
    assert (row.generation, row.state) == (1, "SUCCEEDED")


def test_a_lost_run_that_no_child_took_after_a_failure_waits_for_another_request_of_its_key(
    journal: Journal, open_journal: OpenJournal
) -> None:
    name, other = new_id(), new_id()
    failed = Finish(name, 1, "FAILED", "NOT_NOW", None, None, resend=True)
    journal.apply(Work(claims=[claim(name)._replace(order_key="k")]))
    journal.apply(Work(finishes=[failed]))
    # We had reopened it, and the database has forgotten that: the key is free for a peer.
    peer = open_journal("peer")
    assert kinds(peer.apply(Work(claims=[claim(other)._replace(order_key="k")]))) == [RUN]
    again = claim(name, attempt=2)._replace(order_key="k")
    ours = _untaken(name)._replace(claim=again)
    applied = journal.apply(Work(claims=[again], own_runs=[ours]), tried=[name])
    assert (kinds(applied), applied.restored) == ([VerdictKind.HELD], ())
    peer.apply(Work(finishes=[Finish(other, 1, "SUCCEEDED", None, None, None, resend=False)]))
    applied = journal.apply(Work(claims=[again], own_runs=[ours]), tried=[name])
    assert (kinds(applied), row_of(applied).generation) == ([RUN], 2)


@pytest.mark.parametrize("state", [JournalState.IN_DOUBT, JournalState.CLAIMED])
def test_a_lost_run_that_no_child_took_is_not_written_over_a_row_that_changed_before_its_lock(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, database: Database, state: JournalState
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    (before,) = journal.rows([name])
    database.change("UPDATE onceward_request SET owner = 'peer', state = :s", s=state.value)
    read = JournalWriter.read

    def read_before(
        self: JournalWriter, names: Collection[str], *, lock: bool = False
    ) -> tuple[dict[str, Row], int]:
        return read(self, names, lock=True) if lock else ({name: before}, 0)

    monkeypatch.setattr(JournalWriter, "read", read_before)
    journal.apply(Work(own_runs=[_untaken(name)]))
    (row,) = database.query("SELECT owner, generation, state FROM onceward_request")
    assert row == {"owner": "peer", "generation": 1, "state": state}


@pytest.mark.parametrize("sha", ["a" * 64, OTHER_SHA])
def test_a_row_that_says_more_or_is_of_another_payload_stays(
    open_journal: OpenJournal, database: Database, sha: str
) -> None:
    name = new_id()
    open_journal("peer").apply(Work(claims=[claim(name, sha=sha)]))
    generation = 2 if sha == "a" * 64 else 1
    database.change("UPDATE onceward_request SET generation = :g", g=generation)
    assert open_journal("me").apply(Work(own_runs=[own(name)])).restored == ()
    (row,) = database.query("SELECT owner, state FROM onceward_request")
    assert row == {"owner": "peer", "state": "CLAIMED"}


EXTERNAL, MARKED = "external", "marked"


def denied(open_journal: OpenJournal, name: str, ended: JournalState) -> None:
    """Let a peer, who finds no trace of our claim, end a request as one that was never claimed."""
    peer = open_journal("peer")
    match ended:
        case JournalState.EXPIRED:
            peer.apply(Work(claims=[claim(name, deadline_at=PAST)]))
        case JournalState.FAILED:
            peer.apply(Work(refusals=[refusal(name)]))
        case _:
            other = new_id()
            peer.apply(Work(claims=[claim(other)]))
            skip = Skip(claim(name), other, 1)
            peer.apply(Work(finishes=[finish(other)], skips=[skip]))
    (row,) = peer.rows([name])
    assert (row.state, row.owner, row.generation, row.claimed_at) == (ended, "peer", 1, None)


def in_child(name: str, kind: str, generation: int = 1, *, entered: bool = False) -> OwnRun:
    """Return a run that a child has."""
    one = claim(name, effect_kind=kind)._replace(claimed_at=7)
    return OwnRun(one, generation, entered=entered, finish=None)


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("ended", [JournalState.EXPIRED, JournalState.FAILED, JournalState.SKIPPED])
@pytest.mark.parametrize(("kind", "entered"), [(EXTERNAL, False), (MARKED, True)])
def test_a_run_that_may_have_acted_is_in_doubt_where_a_peer_knew_of_no_claim(
    open_journal: OpenJournal,
    database: Database,
    ended: JournalState,
    kind: str,
    entered: bool,
    generation: int,
) -> None:
    name, me = new_id(), open_journal("me")
    denied(open_journal, name, ended)
    one = in_child(name, kind, generation, entered=entered)
    (row,) = me.apply(Work(own_runs=[one])).restored
    stands = (row.state, row.code, row.generation, row.owner, row.claimed_at, row.effect_at, row.by)
    assert stands == (JournalState.IN_DOUBT, "END_LOST", generation, "me", 7, 7, None)
    assert ended in (row.message or "")
    history = database.query("SELECT * FROM onceward_run WHERE request_id = :name", name=name)
    assert [(run["outcome"], run["owner"]) for run in history] == [(ended, "peer")]
    # Its request does not go on, and its end is known once it has one.
    assert kinds(me.apply(Work(claims=[claim(name, attempt=2)]))) == [VerdictKind.IN_DOUBT]
    assert me.apply(Work(own_runs=[one])).restored == ()
    end = finish(name, generation, result="1")
    assert me.apply(Work(finishes=[end])).finished[name, generation].kind is FinishKind.WRITTEN
    (row,) = me.rows([name])
    assert (row.state, row.result) == (JournalState.SUCCEEDED, "1")


@pytest.mark.parametrize("kind", [MARKED, "transactional"])
def test_a_run_that_has_not_acted_leaves_the_end_of_who_knew_of_no_claim(
    open_journal: OpenJournal, kind: str
) -> None:
    name, me = new_id(), open_journal("me")
    denied(open_journal, name, JournalState.EXPIRED)
    applied = me.apply(Work(own_runs=[in_child(name, kind)], effects=[EffectMark(name, 1)]))
    assert (applied.restored, applied.effects) == ((), frozenset())
    failed = me.apply(Work(finishes=[finish(name, state=JournalState.FAILED)]))
    assert failed.finished[name, 1].kind is FinishKind.STALE
    (row,) = me.rows([name])
    assert (row.state, row.owner) == (JournalState.EXPIRED, "peer")


@pytest.mark.parametrize("state", [JournalState.SUCCEEDED, JournalState.IN_DOUBT])
def test_the_end_of_a_run_that_acted_comes_over_that_of_who_knew_of_no_claim(
    open_journal: OpenJournal, state: JournalState
) -> None:
    name, me = new_id(), open_journal("me")
    denied(open_journal, name, JournalState.EXPIRED)
    end = finish(name, state=state, code="CODE", result="1")
    assert me.apply(Work(finishes=[end])).finished[name, 1].kind is FinishKind.LOST
    own_run = in_child(name, EXTERNAL)._replace(finish=end)
    (row,) = me.apply(Work(own_runs=[own_run])).restored
    assert (row.state, row.code, row.result, row.owner) == (state, "CODE", "1", "me")


@pytest.mark.parametrize(("kind", "entered"), [(EXTERNAL, False), (MARKED, True)])
@pytest.mark.parametrize("is_sent_back", [True, False])
def test_a_run_that_a_redrive_of_a_refusal_has_made_goes_on_where_that_claim_alone_is_lost(
    open_journal: OpenJournal, database: Database, kind: str, entered: bool, is_sent_back: bool
) -> None:
    name, me = new_id(), open_journal("me")
    denied(open_journal, name, JournalState.FAILED)
    if is_sent_back:
        database.change("UPDATE onceward_request SET resend = 1")
    one = in_child(name, kind, 2, entered=entered)
    one = one._replace(claim=one.claim._replace(attempt=2))
    (row,) = me.apply(Work(own_runs=[one])).restored
    expected = (JournalState.CLAIMED, None) if is_sent_back else (JournalState.IN_DOUBT, "END_LOST")
    assert ((row.state, row.code), row.generation, row.owner) == (expected, 2, "me")
    end = finish(name, 2, JournalState.RETRYING, delay_ms=10)
    assert me.apply(Work(finishes=[end])).finished[name, 2].kind is FinishKind.WRITTEN
    (row,) = me.rows([name])
    assert row.state == (JournalState.RETRYING if is_sent_back else JournalState.FAILED)


def test_a_takeover_of_an_older_claim_whose_later_run_ended_here_is_stale(
    journal: Journal, open_journal: OpenJournal
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, "WORKER_DIED")
    applied = journal.apply(Work(takeovers=[wish], own_runs=[own(name, 2)]))
    assert applied.takeovers[name, 1].kind == "STALE"
    assert [row.state for row in applied.restored] == ["SUCCEEDED"]


@pytest.mark.parametrize(
    ("effect_kind", "doubted"), [("marked", True), ("external", True), ("transactional", False)]
)
def test_a_claim_that_is_given_up_is_a_sweep_s_and_in_doubt_unless_it_is_undone(
    journal: Journal, effect_kind: str, doubted: bool
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name, effect_kind=effect_kind)]))
    journal.disown([(name, 1), (name, 2)])
    assert journal.own_claims() == []
    (row,) = journal.dead_claims(["payments"], 10)
    assert (row.owner, row.effect_at is not None) == (f"me{DISOWNED}", doubted)


@pytest.mark.parametrize("effect_kind", ["marked", "external", "transactional"])
def test_a_claim_that_was_never_begun_is_a_sweep_s_and_no_doubt(
    journal: Journal, open_journal: OpenJournal, effect_kind: str
) -> None:
    name = new_id()
    dead = open_journal("dead")
    dead.apply(Work(claims=[claim(name, effect_kind=effect_kind)]))
    dead.mark_unbegun([(name, 1)])
    (row,) = journal.dead_claims(["payments"], 10)
    assert (row.owner, row.effect_at) == ("dead", None)
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, "WORKER_DIED", effect_kind)
    (taken,) = journal.apply(Work(takeovers=[wish])).takeovers.values()
    assert taken.kind == "GRANTED"
    assert taken.row is not None
    again = (taken.row.generation, taken.row.effect_kind, taken.row.effect_at is not None)
    assert again == (2, effect_kind, effect_kind == "external")


def test_a_claim_that_was_never_begun_is_marked_so_at_the_second_try(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    tries, mark = [], restoring.mark_unbegun

    def first_is_rolled_back(writer: JournalWriter, runs: Sequence[tuple[str, int]]) -> None:
        mark(writer, runs)
        tries.append(runs)
        if len(tries) == 1:
            raise Contended("deadlock")

    monkeypatch.setattr(commits, "mark_unbegun", first_is_rolled_back)
    journal.mark_unbegun([(name, 1)])
    (row,) = journal.rows([name])
    assert (len(tries), row.effect_kind, row.effect_at) == (2, "marked", None)


@pytest.mark.parametrize("run", [("another's", 1), ("later", 1), ("ended", 1)])
def test_only_a_claim_of_ours_that_stands_is_given_back(
    journal: Journal, open_journal: OpenJournal, run: tuple[str, int]
) -> None:
    names = {one: new_id() for one in ("another's", "later", "ended")}
    open_journal("another").apply(Work(claims=[claim(names["another's"])]))
    journal.apply(Work(claims=[claim(names["later"])._replace(begins_at=2), claim(names["ended"])]))
    journal.apply(Work(finishes=[finish(names["ended"])]))
    before = journal.rows(names.values())
    journal.mark_unbegun([(names[run[0]], run[1])])
    assert journal.rows(names.values()) == before


def test_a_dead_claim_ends_as_its_client_was_told(
    journal: Journal, open_journal: OpenJournal
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    end = DeadEnd(
        name, 1, JournalState.FAILED, "NO", "why", result="7", resend=True, told_generation=3
    )
    (row,) = journal.end_dead_claims([end])
    told = (row.state, row.code, row.message, row.result, row.resend, row.generation)
    assert told == ("FAILED", "NO", "why", "7", True, 3)


@pytest.mark.parametrize(("told", "voids"), [(2, 2), (None, 0)])
def test_a_dead_claim_that_ends_as_a_later_run_has_the_key_of_that_one(
    journal: Journal, open_journal: OpenJournal, told: int | None, voids: int
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    end = DeadEnd(name, 1, JournalState.FAILED, "NO", "why", told_generation=3, voids=told)
    (row,) = journal.end_dead_claims([end])
    assert (row.generation, row.voids) == (3, voids)


@pytest.mark.parametrize(
    ("claimed_at", "why"),
    # Whether a rule had let the later run follow is said by the moment of its claim.
    [(4_102_444_800_000, "GRANTED"), (1, None), (None, None)],
)
def test_a_dead_claim_that_ends_as_a_later_run_is_kept_in_the_history(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    claimed_at: int | None,
    why: str | None,
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    later = claim(name)._replace(claimed_at=claimed_at)
    end = DeadEnd(
        name, 1, JournalState.SUCCEEDED, None, None, told_generation=2, voids=0, later=later
    )
    (row,) = journal.end_dead_claims([end])
    assert (row.state, row.generation) == ("SUCCEEDED", 2)
    (kept,) = database.query("SELECT * FROM onceward_run")
    facts = (kept["request_id"], kept["generation"], kept["owner"], kept["outcome"])
    assert facts == (name, 1, "dead", "WORKER_DIED")
    assert (kept["by_whom"], kept["allowed_by"]) == ("me", why)
    assert kept["effect_at"] == row.effect_at
    # Found again by another sweep, it is over.
    assert journal.end_dead_claims([end]) == []
    assert len(database.query("SELECT * FROM onceward_run")) == 1


def test_a_claim_of_the_living_is_neither_ended_nor_kept(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases, database: Database
) -> None:
    name = new_id()
    open_leases("lives").register(600.0)
    open_journal("lives").apply(Work(claims=[claim(name)]))
    end = DeadEnd(name, 1, JournalState.SUCCEEDED, None, None, told_generation=2, later=claim(name))
    assert journal.end_dead_claims([end]) == []
    assert database.query("SELECT * FROM onceward_run") == []


def test_the_end_of_the_claim_itself_is_its_row_and_no_history(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    journal.end_dead_claims(
        [DeadEnd(name, 1, JournalState.SUCCEEDED, None, None, told_generation=1)]
    )
    assert database.query("SELECT * FROM onceward_run") == []


def test_a_lease_that_is_renewed_under_a_sweep_leaves_no_history(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    monkeypatch.setattr(sweep, "_END_DEAD", sweep._END_DEAD.where(false()))
    end = DeadEnd(name, 1, JournalState.SUCCEEDED, None, None, told_generation=2, later=claim(name))
    with pytest.raises(Contended):
        journal.end_dead_claims([end])
    (row,) = journal.dead_claims(["payments"], 10)
    assert (row.request_id, row.generation) == (name, 1)
    assert database.query("SELECT * FROM onceward_run") == []


def test_a_sweeper_whose_own_lease_is_over_ends_and_keeps_nothing(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases, database: Database
) -> None:
    open_leases("me").register(0)
    names = sorted([new_id(), new_id()])
    open_journal("dead").apply(Work(claims=[claim(one) for one in names]))
    ends = [
        DeadEnd(names[0], 1, JournalState.SUCCEEDED, None, None),
        DeadEnd(
            names[1],
            1,
            JournalState.SUCCEEDED,
            None,
            None,
            told_generation=2,
            later=claim(names[1]),
        ),
    ]
    assert journal.end_dead_claims(ends) == []
    assert database.query("SELECT * FROM onceward_run") == []


def test_a_lease_that_is_over_in_the_midst_of_a_sweep_leaves_the_claim_to_the_next_one(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_id()
    open_journal("dead").apply(Work(claims=[claim(name)]))
    end = DeadEnd(name, 1, JournalState.SUCCEEDED, None, None, told_generation=2, later=claim(name))
    with monkeypatch.context() as before:
        before.setattr(sweep, "living", lambda _, owners: {*owners})
        assert journal.end_dead_claims([end]) == []
    assert database.query("SELECT * FROM onceward_run") == []
    (row,) = journal.end_dead_claims([end])
    assert (row.state, row.generation) == ("SUCCEEDED", 2)
    assert len(database.query("SELECT * FROM onceward_run")) == 1
