"""A record is read once more after its request was pruned, and its worker dies before the claim.

The resend of it lies behind all that was pruned, and names the deadline of that last reading.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from consumer.handlers.delivery import Delivery, receive
from consumer.journal import (
    FinishKind,
    Journal,
    JournalState,
    OwnRun,
    Row,
    ToldRun,
    VerdictKind,
    Work,
)
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.loop import mapping
from consumer.status import status_messages
from feedback.clock import epoch_ms
from feedback.records.envelope import (
    DEADLINE,
    FIRST,
    REQUEST_ID,
    FirstPlace,
    Record,
    encode_headers,
)
from feedback.status import DISOWNED
from feedback.statuses import status_of
from producer_client.sending.send_rules import next_envelope
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import FAR, finish, kinds, new_id
from tests.consumer.journal.sweeps.test_pruning import DAY_MS, age
from tests.consumer.samples import payments, record

LONG_S = 1e10
OLD_MS = 5


def read(one: Record, *, deadline_s: float = LONG_S) -> Delivery:
    """Return a record as a worker reads it."""
    found = receive(
        one,
        payments(),
        group="test",
        default_deadline_s=deadline_s,
        now_s=0.0,
        now_ms=epoch_ms(),
    )
    assert isinstance(found, Delivery)
    return found


def resent(lost: Delivery, offset: int, told: Sequence[str] = (FIRST,)) -> Record:
    """Return the record of a resend of what a dead worker had accepted.

    Args:
        told: which of the headers that an older sender does not know it has.
    """
    write = status_messages.accepted(lost, worker_id="dead")
    stands = {**write.fields, "status": write.state, "attempt": str(write.attempt)}
    known = status_of(lost.request_id, stands, set())
    headers = encode_headers(next_envelope(lost.request_id, known, known.deadline_at))
    kept = tuple(one for one in headers if one[0] in told or one[0] != FIRST)
    return record(offset=offset, timestamp_ms=epoch_ms(), headers=kept)


def pruned(journal: Journal, database: Database, one: Delivery) -> None:
    """Let a request of this record run and end, and forget it."""
    claim = mapping.claim(one)._replace(deadline_at=FAR)
    assert kinds(journal.apply(Work(claims=[claim]))) == [VerdictKind.RUN]
    journal.apply(Work(finishes=[finish(one.request_id)]))
    for column in ("deadline_at", "finished_at"):
        age(database, column, request_id=one.request_id)
    # As late as a record of that time may name it.
    database.change('UPDATE onceward_request SET "deadline_at" = :at', at=OLD_MS)
    assert journal.prune(DAY_MS, 10).requests == 1


def sent_first(request_id: str, kind: str) -> Record:
    """Return the record of a request: without a time, of an old one, or with a deadline."""
    headers = [(REQUEST_ID, request_id.encode())]
    if kind == "its own deadline":
        headers.append((DEADLINE, b"%d" % OLD_MS))
    at_ms = -1 if kind == "no time" else OLD_MS
    return record(offset=17, timestamp_ms=at_ms, headers=tuple(headers))


KINDS = ["no time", "an old time, a longer deadline", "its own deadline"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resend_of_what_was_pruned_and_read_again_neither_runs_nor_is_said_not_to_have_run(
    journal: Journal, database: Database, kind: str
) -> None:
    first = sent_first(new_id(), kind)
    pruned(journal, database, read(first, deadline_s=60))
    again = read(resent(read(first), 99))
    assert (again.envelope.attempt, again.deadline_at <= epoch_ms()) == (2, kind == KINDS[-1])
    assert kinds(journal.apply(Work(claims=[mapping.claim(again)]))) == [VerdictKind.IN_DOUBT]
    (row,) = database.query("SELECT * FROM onceward_request")
    assert (row["state"], row["code"]) == (JournalState.IN_DOUBT, "FORGOTTEN")
    assert (row["offset"], row["claimed_at"], row["effect_at"]) == (99, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_so_is_a_resend_whose_resend_was_lost_as_well(
    journal: Journal, database: Database, kind: str
) -> None:
    first = sent_first(new_id(), kind)
    pruned(journal, database, read(first, deadline_s=60))
    again = read(resent(read(resent(read(first), 99)), 199))
    assert again.envelope.attempt == 3
    assert kinds(journal.apply(Work(claims=[mapping.claim(again)]))) == [VerdictKind.IN_DOUBT]


def told(name: str, state: JournalState, first: FirstPlace | None, code: str = "") -> ToldRun:
    """Return a run as an older Redis tells it of a request that was pruned since."""
    one = mapping.claim(read(sent_first(name, KINDS[-1])))
    again = one._replace(offset=99, attempt=2, first=first)
    owner = f"dead{DISOWNED}" if state is JournalState.CLAIMED else "dead"
    resend = state is JournalState.FAILED
    return ToldRun(again, 2, state, owner, code=code or None, resend=resend)


PLACE = FirstPlace("payments", 3, 17)


@pytest.mark.parametrize(
    ("state", "code"), [(JournalState.CLAIMED, ""), (JournalState.FAILED, "END_LOST")]
)
@pytest.mark.parametrize("is_read_again", [True, False])
def test_a_run_that_an_older_redis_tells_of_what_was_pruned_does_not_go_on(
    journal: Journal, database: Database, state: JournalState, code: str, is_read_again: bool
) -> None:
    first = sent_first(new_id(), KINDS[-1])
    name = read(first).request_id
    pruned(journal, database, read(first))
    if is_read_again:  # by a sender that does not know what it repeats
        again = mapping.claim(read(resent(read(first), 99, told=())))
        assert kinds(journal.apply(Work(claims=[again]))) == [VerdictKind.EXPIRED]
    caught_up = journal.catch_up([told(name, state, PLACE, code)])
    said = [(row.state, row.code, row.generation, row.owner) for row in caught_up]
    assert said == [(JournalState.IN_DOUBT, "FORGOTTEN", 2, "dead")]
    # A sender that does not know what it repeats may name a new deadline.
    later = mapping.claim(read(resent(read(first), 199, told=())))._replace(deadline_at=FAR)
    assert kinds(journal.apply(Work(claims=[later]))) == [VerdictKind.IN_DOUBT]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JournalState.SUCCEEDED, ""),
        (JournalState.FAILED, "HANDLER_ERROR"),
        (JournalState.EXPIRED, "DEADLINE_OVER"),
    ],
)
def test_an_end_that_an_older_redis_tells_of_what_was_pruned_is_its_end(
    journal: Journal, database: Database, state: JournalState, code: str
) -> None:
    first = sent_first(new_id(), KINDS[-1])
    pruned(journal, database, read(first))
    journal.apply(Work(claims=[mapping.claim(read(resent(read(first), 99, told=())))]))
    (row,) = journal.catch_up([told(read(first).request_id, state, PLACE, code)])
    assert (row.state, row.code, row.generation) == (state, code or None, 2)


@pytest.mark.parametrize("first", [None, PLACE._replace(offset=18), PLACE._replace(partition=4)])
def test_a_told_run_that_lies_behind_what_was_pruned_goes_on_by_the_policy(
    journal: Journal, database: Database, first: FirstPlace | None
) -> None:
    record = sent_first(new_id(), KINDS[-1])
    pruned(journal, database, read(record))
    journal.apply(Work(claims=[mapping.claim(read(resent(read(record), 99, told=())))]))
    (row,) = journal.catch_up([told(read(record).request_id, JournalState.CLAIMED, first)])
    assert (row.state, row.generation, row.owner) == (JournalState.CLAIMED, 2, f"dead{DISOWNED}")


def test_a_told_run_above_one_that_stands_there_was_not_pruned(
    journal: Journal, database: Database
) -> None:
    pruned(journal, database, read(sent_first(new_id(), KINDS[-1])))
    first = read(sent_first(new_id(), KINDS[-1]))
    claim = mapping.claim(first)._replace(deadline_at=FAR)
    assert kinds(journal.apply(Work(claims=[claim]))) == [VerdictKind.RUN]
    (row,) = journal.catch_up([told(first.request_id, JournalState.CLAIMED, PLACE)])
    assert (row.state, row.generation) == (JournalState.CLAIMED, 2)


def test_a_resend_of_an_older_sender_is_judged_by_its_own_place(
    journal: Journal, database: Database
) -> None:
    first = sent_first(new_id(), KINDS[0])
    pruned(journal, database, read(first, deadline_s=60))
    again = read(resent(read(first), 99, told=()))
    assert again.envelope.first is None
    assert kinds(journal.apply(Work(claims=[mapping.claim(again)]))) == [VerdictKind.RUN]


@pytest.mark.parametrize("state", [JournalState.IN_DOUBT, JournalState.SUCCEEDED])
@pytest.mark.parametrize("is_sent_back", [True, False])
def test_what_a_person_has_said_of_a_forgotten_request_is_not_taken_back_by_who_remembers_a_run(
    open_journal: OpenJournal,
    database: Database,
    group: str,
    state: JournalState,
    is_sent_back: bool,
) -> None:
    peer, me = open_journal("peer"), open_journal("me")
    first = sent_first(new_id(), KINDS[0])
    pruned(me, database, read(first, deadline_s=60))
    again = mapping.claim(read(first))
    assert kinds(peer.apply(Work(claims=[again]))) == [VerdictKind.IN_DOUBT]
    name = again.request_id
    decisions = PersonDecisions(database.url, group=group)
    is_done, _ = decisions.resolve(
        name, has_succeeded=False, result=None, code="RESOLVED", reason="the list", by="zoe"
    )
    decisions.close()
    assert is_done
    if is_sent_back:
        database.change("UPDATE onceward_request SET resend = 1")
    end = finish(name, state=state, code="WORKER_DIED")
    applied = me.apply(Work(own_runs=[OwnRun(again, 1, True, end)]))
    assert applied.restored == ()
    assert me.apply(Work(finishes=[end])).finished[name, 1].kind is FinishKind.STALE
    (row,) = me.rows([name])
    assert (row.state, row.code) == (JournalState.FAILED, "RESOLVED")
    # An older Redis does not make it a claim either.
    (row,) = me.catch_up([told(name, JournalState.CLAIMED, PLACE)])
    assert (row.state, row.code, row.generation) == (JournalState.IN_DOUBT, "FORGOTTEN", 2)


@pytest.mark.parametrize("stood", [True, False])
def test_a_told_run_does_not_come_in_doubt_over_an_end_that_was_written_before_its_lock(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    stood: bool,
) -> None:
    first = sent_first(new_id(), KINDS[-1])
    name = read(first).request_id
    pruned(journal, database, read(first))
    before: dict[str, Row] = {}
    if stood:
        journal.apply(Work(claims=[mapping.claim(read(resent(read(first), 99, told=())))]))
        before = {name: journal.rows([name])[0]}
    # Its worker remembers how it ended.
    ended = OwnRun(mapping.claim(read(first)), 1, True, finish(name))
    open_journal("peer").apply(Work(own_runs=[ended]))
    reads = JournalWriter.read

    def read_too_early(
        self: JournalWriter, names: Collection[str], *, lock: bool = False
    ) -> tuple[dict[str, Row], int]:
        monkeypatch.setattr(JournalWriter, "read", reads)
        return before, 0

    monkeypatch.setattr(JournalWriter, "read", read_too_early)
    (row,) = journal.catch_up([told(name, JournalState.CLAIMED, PLACE)])
    assert (row.state, row.code, row.owner) == (JournalState.SUCCEEDED, None, "peer")
