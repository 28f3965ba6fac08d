"""What a turn of the loop writes of requests that may have run here before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from consumer.journal import DISOWNED, Journal, VerdictKind
from consumer.loop.continuation import After, continuation
from consumer.loop.in_flight import InFlight
from consumer.loop.told_runs import ToldRuns
from consumer.loop.writing import Writing
from feedback.status import State
from feedback.statuses import Status
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
    held = InFlight(tried={"a"})
    again = delivery("a", 2)._replace(deadline_at=FAR_MS)
    if in_hand:
        held.continuing["a", 2] = continuation(again, 2, After.RUN_AGAIN, because="CHILD_DIED")
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
