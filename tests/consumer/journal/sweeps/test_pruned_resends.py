"""A record is read once more after its request was pruned, and its worker dies before the claim.

The resend of it lies behind all that was pruned, and names the deadline of that last reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from consumer.handlers.delivery import Delivery, receive
from consumer.journal import Journal, JournalState, VerdictKind, Work
from consumer.loop import mapping
from consumer.status import status_messages
from feedback.clock import epoch_ms
from feedback.records.envelope import DEADLINE, FIRST, REQUEST_ID, Record, encode_headers
from feedback.statuses import status_of
from producer_client.sending.send_rules import next_envelope
from tests.consumer.journal.conftest import Database
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


def test_a_resend_of_an_older_sender_is_judged_by_its_own_place(
    journal: Journal, database: Database
) -> None:
    first = sent_first(new_id(), KINDS[0])
    pruned(journal, database, read(first, deadline_s=60))
    again = read(resent(read(first), 99, told=()))
    assert again.envelope.first is None
    assert kinds(journal.apply(Work(claims=[mapping.claim(again)]))) == [VerdictKind.RUN]
