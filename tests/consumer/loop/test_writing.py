"""What a turn of the loop writes of requests that may have run here before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, text

from consumer.journal import (
    Applied,
    Finish,
    Journal,
    OwnRun,
    VerdictKind,
    Work,
)
from consumer.loop import mapping
from consumer.loop.continuation import NextStep, after_voided, continuation
from consumer.loop.granted import claimed_delivery
from consumer.loop.in_flight import InFlight
from consumer.loop.order.key_queues import KeyQueues
from consumer.loop.told_runs import ToldRuns
from consumer.loop.writing import Writing
from feedback.status import DISOWNED, State
from feedback.statuses import Status
from tests.consumer.loop.order.samples import asked
from tests.consumer.samples import SHA, delivery
from tests.kit.databases import migrated

FAR_MS = 4_000_000_000_000
TOLD = Status("a", State.RUNNING, 1, 2, worker="me", payload_sha256=SHA, effect_kind="external")


class Statuses:
    """A Redis that was told of a run of this worker, which lives."""

    def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        return [replace(TOLD, request_id=one) for one in request_ids]

    def alive(self, worker_ids: Iterable[str]) -> set[str]:
        return set(worker_ids)


class StatusWriter:
    """Has told nothing."""

    told_count = 0


@pytest.fixture
def journal(journal_url: str, group: str) -> Iterator[Journal]:
    """Yield a journal of worker `me` that has lost all it had."""
    migrated(journal_url)
    journal = Journal(journal_url, group=group, worker_id="me")
    yield journal
    journal.close()


@pytest.mark.parametrize("in_hand", [False, True])
def test_a_run_of_ours_that_the_database_lost_and_nobody_has_in_hand_is_not_granted_as_a_new_one(
    journal: Journal, in_hand: bool
) -> None:
    status_writer: Any = StatusWriter()
    # An earlier try of the claim had no answer.
    held = InFlight()
    again = delivery("a", 2)._replace(deadline_at=FAR_MS)
    held.take([again])
    held.unanswered([again])
    if in_hand:
        held.revive(continuation(again, 2, NextStep.RUN_AGAIN, because="CHILD_DIED"))
    writing = Writing(
        in_flight=held,
        journal=journal,
        status_writer=status_writer,
        told_runs=ToldRuns(Statuses(), lambda: False),
        worker_id="me",
    )
    (verdict,) = writing.write([again], [], 0.0).verdicts
    assert (verdict.kind, verdict.row and verdict.row.generation) == (VerdictKind.RUNNING, 2)
    assert verdict.row is not None
    assert verdict.row.owner == ("me" if in_hand else f"me{DISOWNED}")


def _forgets_takeover(url: str) -> None:
    """Let the database know no more than the first claim."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("DELETE FROM onceward_run"))
        connection.execute(text("UPDATE onceward_request SET generation = 1, voids = 0"))


def _followed(journal: Journal, first: Journal, kept: InFlight) -> None:
    """Let a run of ours follow one whose key was voided; no child takes it."""
    one = delivery("a")._replace(deadline_at=FAR_MS)
    first.apply(Work(claims=[mapping.claim(one)]))
    wish = after_voided(one, 1).takeover
    (taken,) = journal.apply(Work(takeovers=[wish])).takeovers.values()
    assert taken.row is not None
    assert (taken.row.generation, taken.row.voids) == (2, 1)
    kept.not_dispatched([(claimed_delivery(one, taken.row), taken.row)])


def _written(journal: Journal, kept: InFlight) -> Applied:
    status_writer: Any = StatusWriter()
    writing = Writing(
        in_flight=kept,
        journal=journal,
        status_writer=status_writer,
        told_runs=ToldRuns(None, lambda: False),
        worker_id="me",
    )
    return writing.write(kept.claiming, [], 0.0)


def test_a_lost_claim_that_no_child_took_is_granted_again_and_not_the_run_before_it(
    journal: Journal, journal_url: str
) -> None:
    kept = InFlight()
    _followed(journal, journal, kept)
    _forgets_takeover(journal_url)
    (verdict,) = _written(journal, kept).verdicts
    assert (verdict.kind, verdict.row and verdict.row.generation) == (VerdictKind.RUN, 2)
    # Under the old key the counterparty would refuse it.
    assert verdict.row is not None and verdict.row.voids == 1


def test_a_lost_claim_that_no_child_took_gives_way_to_the_worker_that_has_the_run_before_it(
    journal: Journal, journal_url: str, group: str
) -> None:
    kept = InFlight()
    # It stood still past its lease, and goes on since the database has lost that we took it over.
    peer = Journal(journal_url, group=group, worker_id="peer")
    _followed(journal, peer, kept)
    _forgets_takeover(journal_url)
    with create_engine(journal_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE onceward_request SET owner = 'peer'"))
    applied = _written(journal, kept)
    (verdict,) = applied.verdicts
    assert (verdict.kind, applied.restored) == (VerdictKind.RUNNING, ())
    end = Finish("a", 1, "SUCCEEDED", None, None, None, False)
    assert [one.kind for one in peer.apply(Work(finishes=[end])).finished.values()] == ["WRITTEN"]
    peer.close()


def test_what_was_pruned_does_not_run_again_where_it_is_sent_again_while_it_waits_for_its_key(
    journal: Journal,
) -> None:
    first = asked("a")
    # It ran, and its time was over.
    run = mapping.claim(first)._replace(deadline_at=1)
    end = Finish("a", 1, State.SUCCEEDED, code=None, message=None, result=None, resend=False)
    journal.apply(Work(own_runs=[OwnRun(run, 1, entered=True, finish=end)]))
    assert journal.prune(0, 10).requests == 1
    # Its offset was reset: it is read again, without a time of its own, behind another of its key.
    read = first._replace(record=first.record._replace(timestamp_ms=-1), deadline_at=FAR_MS)
    again = asked("a", attempt=2)
    resend = again._replace(
        envelope=again.envelope._replace(deadline_at=FAR_MS, reopens=0), deadline_at=FAR_MS
    )
    queues = KeyQueues(10)
    assert [queues.admits(one) for one in (asked("b"), read, resend)] == [True, False, False]
    (waits,) = queues.waiting
    (verdict,) = journal.apply(Work(claims=[mapping.claim(waits)])).verdicts
    assert verdict.kind is VerdictKind.IN_DOUBT
    assert verdict.row is not None
    assert verdict.row.code == "FORGOTTEN"
