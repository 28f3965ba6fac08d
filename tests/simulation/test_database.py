"""The simulated journal answers as the real one does, and leaves the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, select

from consumer.journal import (
    Applied,
    Claim,
    DeadEnd,
    EffectMark,
    Finish,
    Journal,
    JournalState,
    Leases,
    OwnRun,
    Published,
    Refusal,
    Row,
    Skip,
    Takeover,
    TakeoverKind,
    ToldRun,
    Work,
)
from consumer.journal.tables import request, run
from consumer.journal.transactional import Transactions
from tests.kit.databases import migrated
from tests.simulation.database import Database
from tests.simulation.tables import Change

SEQUENCES = 300
NOW_MS = 1_790_000_000_000
FAR_MS = 4_102_444_800_000
GROUP = "g"
WORKERS = ("a", "b")
IDS = ("r0", "r1")
TIMES = ("effect_at", "claimed_at", "due_at", "finished_at", "published_at", "dead_letter_at")
# Of the history, in the order of the fields of the simulated one.
KEPT = (
    *("request_id", "generation", "attempt", "owner", "outcome", "by_whom", "effect_at"),
    *("effect_kind", "allowed_by"),
)
Facts = tuple[object, ...]


class Both:
    """The real journal beside the simulated one."""

    def __init__(self, url: str) -> None:
        migrated(url)
        self.engine: Engine = create_engine(url, poolclass=NullPool)
        self.journals = {one: Journal(url, group=GROUP, worker_id=one) for one in WORKERS}
        self.leases = {one: Leases(url, group=GROUP, worker_id=one) for one in WORKERS}
        self.transactions = {one: Transactions(url, GROUP, one) for one in WORKERS}
        self.simulated = Database(lambda: NOW_MS, self._ignore)
        sessions = [one._session for one in self.journals.values()]
        sessions += [one._session for one in self.leases.values()]
        engines = [one._engine for one in sessions]
        engines += [one._engine for one in self.transactions.values()]
        for engine in engines:
            event.listen(engine, "connect", _trust_the_disk)

    def _ignore(self, change: Change) -> None:
        """Look at no single change."""

    def close(self) -> None:
        """Close every connection."""
        for journal in self.journals.values():
            journal.close()
        for leases in self.leases.values():
            leases.close()
        for transactions in self.transactions.values():
            transactions.close()

    def begin(self) -> None:
        """Begin a sequence: new requests, and no leases."""
        self.simulated = Database(lambda: NOW_MS, self._ignore)
        for one in self.leases.values():
            one.release()


def _trust_the_disk(connection: Any, record: object) -> None:
    # Thousands of commits, and no crash among them: waiting for the disk would show nothing.
    connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    """Yield both journals, on a database of their own."""
    made = Both(f"sqlite:///{tmp_path / 'journal.db'}")
    yield made
    made.close()


class Sequence:
    """Random calls to both, on requests that no other sequence has."""

    def __init__(self, both: Both, number: int) -> None:
        self._both = both
        self._draw = Random(number)
        self._of_ends = Random(-1 - number)
        self._ids = [f"{number}-{one}" for one in IDS]

    def step(self) -> tuple[Facts, Facts]:
        """Make one call to both and return both answers."""
        worker = self._draw.choice(WORKERS)
        calls = (self._apply, self._apply, self._apply, self._lease, self._sweep, self._commit)
        return self._draw.choice(calls)(worker)

    def _apply(self, worker: str) -> tuple[Facts, Facts]:
        draw, work = self._draw, dict[str, list[Any]]()
        for name in draw.sample(("claims", "finishes", "effects", "takeovers", "published"), 2):
            work[name] = [getattr(self, f"_draw_{name}")() for _ in range(draw.randint(1, 2))]
        # Nobody goes on with one request in two ways at once, or ends two runs of it.
        for name in ("takeovers", "finishes"):
            work[name] = list({one.request_id: one for one in work.get(name, ())}.values())
        if draw.random() < 0.2:
            work["refusals"] = [self._draw_refusal()]
        runs = [(one, generation) for one in self._ids for generation in (1, 2)]
        held = [one for one in runs if draw.random() < 0.5]
        tried = [one for one in self._ids if draw.random() < 0.5]
        if draw.random() < 0.3:
            work["skips"] = [self._draw_skip()]
        if draw.random() < 0.3:
            work["own_runs"] = [self._draw_own_run() for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.3:
            told = [self._draw_told_run() for _ in range(draw.randint(1, 2))]
            work["told_runs"] = list({one.request_id: one for one in told}.values())
        asked = Work(**work)
        real = self._both.journals[worker].apply(asked, held=held, tried=tried)
        simulated = self._both.simulated.apply(worker, asked, held=held, tried=tried)
        return _facts_of(real), _facts_of(simulated)

    def _lease(self, worker: str) -> tuple[Facts, Facts]:
        seconds = self._draw.choice((600.0, 600.0, 0.0))
        self._both.leases[worker].register(seconds)
        self._both.simulated.register(worker, int(seconds * 1000))
        return (), ()

    def _sweep(self, worker: str) -> tuple[Facts, Facts]:
        real = self._both.journals[worker]
        simulated = self._both.simulated
        found = [row for row in real.dead_claims(["t"], 1_000) if row.request_id in self._ids]
        dead = simulated.dead_claims(worker, ["t"], 1_000)
        ends = [self._draw_end(one) for one in self._ids]
        answers = (real.end_dead_claims(ends), simulated.end_dead(worker, ends))
        runs = [(one, self._draw.randint(1, 2)) for one in self._ids]
        if self._draw.random() < 0.2:
            real.disown(runs)
            simulated.disown(worker, runs)
        if self._draw.random() < 0.2:
            real.mark_unbegun(runs)
            simulated.mark_unbegun(worker, runs)
        mine = [row for row in real.own_claims() if row.request_id in self._ids]
        ours = [row for row in real.unpublished(100_000, 0) if row.request_id in self._ids]
        own = simulated.own_claims(worker)
        untold = (ours, simulated.unpublished(1_000, 0))
        return (
            (_facts(found), _facts(answers[0]), _facts(untold[0]), _facts(mine)),
            (_facts(dead), _facts(answers[1]), _facts(untold[1]), _facts(own)),
        )

    def _draw_end(self, name: str) -> DeadEnd:
        """Return the end of a claim, half of the time as the one of a later run."""
        draw = self._draw
        generation, voids = draw.randint(1, 2), draw.choice((None, 0, 3))
        end = DeadEnd(
            name, generation, JournalState.IN_DOUBT, "WORKER_DIED", "it died", voids=voids
        )
        if draw.random() < 0.5:
            return end
        later = self._draw_claims()._replace(
            request_id=name, claimed_at=draw.choice((None, 1, FAR_MS))
        )
        return replace(end, told_generation=generation + 1, later=later)

    def _commit(self, worker: str) -> tuple[Facts, Facts]:
        """Finish in a child of this worker."""
        name, generation = self._draw.choice(self._ids), self._draw.randint(1, 2)
        end = Finish(name, generation, JournalState.SUCCEEDED, None, None, "1", False)
        with self._both.transactions[worker].begin() as transaction:
            real = transaction.finish(
                name, generation, JournalState.SUCCEEDED, None, None, "1", False
            )
        simulated = self._both.simulated.finish_in_child(worker, end, lambda: None)
        return (real,), (simulated,)

    def _draw_claims(self) -> Claim:
        return self._claim_drawn_by(self._draw)

    def _claim_drawn_by(self, draw: Random) -> Claim:
        return Claim(
            request_id=draw.choice(self._ids),
            topic=draw.choice("tttu"),
            partition=0,
            offset=draw.randint(0, 9),
            message_key=b"k",
            payload_sha256=draw.choice("aaab") * 64,
            attempt=draw.randint(1, 3),
            deadline_at=draw.choice((FAR_MS, FAR_MS, FAR_MS, 1)),
            effect_kind=draw.choice(("external", "marked", "transactional")),
            wakes=draw.choice((0, 0, 1, 2)),
            reopens=draw.choice((None, None, 0, 1)),
            order_key=draw.choice((None, f"{self._ids[0]}-key")),
        )

    def _draw_finishes(self) -> Finish:
        draw = self._draw
        state = draw.choice(
            (
                JournalState.SUCCEEDED,
                JournalState.FAILED,
                JournalState.FAILED,
                JournalState.IN_DOUBT,
                JournalState.RETRYING,
            )
        )
        resend = state is JournalState.FAILED and draw.random() < 0.7
        name, generation = draw.choice(self._ids), draw.randint(1, 3)
        delay_ms = 0 if state is JournalState.RETRYING else None
        if_late = state is JournalState.RETRYING and draw.random() < 0.5
        made = Finish(name, generation, state, "CODE", "why", None, resend, delay_ms, if_late)
        # That of a run that was written again, or of one that the rows know nothing of.
        known = self._claim_drawn_by(self._of_ends)
        known = known._replace(request_id=name, claimed_at=draw.choice((None, 1)))
        return made._replace(claim=self._of_ends.choice((None, known, known)))

    def _draw_own_run(self) -> OwnRun:
        end = self._draw_finishes()
        voids, claimed_at = self._draw.randint(0, 2), end.claimed_at
        claim = self._draw_claims()._replace(
            request_id=end.request_id, voids=voids, claimed_at=claimed_at
        )
        end = end._replace(claim=claim)
        finish = self._draw.choice((end, end, None))
        is_begun = finish is not None or self._draw.random() < 0.5
        return OwnRun(claim, end.generation, self._draw.random() < 0.5, finish, is_begun)

    def _draw_told_run(self) -> ToldRun:
        draw = self._draw
        claim = self._draw_claims()._replace(
            voids=draw.randint(0, 2), claimed_at=draw.choice((None, 1, FAR_MS))
        )
        # What waits for its next run is told as one without an end.
        state = draw.choice([one for one in JournalState if one is not JournalState.RETRYING])
        resend = state is JournalState.FAILED and draw.random() < 0.7
        owner = draw.choice((*WORKERS, "gone"))
        told = ToldRun(claim, draw.randint(1, 3), state, owner, "CODE", "why", resend=resend)
        return told.disowned() if draw.random() < 0.5 else told

    def _draw_skip(self) -> Skip:
        return Skip(self._draw_claims(), self._draw.choice(self._ids), self._draw.randint(1, 2))

    def _draw_effects(self) -> EffectMark:
        name, generation = self._draw.choice(self._ids), self._draw.randint(1, 2)
        return EffectMark(name, generation, only_in_time=self._draw.random() < 0.5)

    def _draw_takeovers(self) -> Takeover:
        draw = self._draw
        because = draw.choice(("CHILD_DIED", "WORKER_DIED"))
        kind = draw.choice(list(TakeoverKind))
        declared = draw.choice((None, "external", "marked", "transactional"))
        policy = draw.choice((None, "park", "query"))
        name = draw.choice(self._ids)
        topic, sha = draw.choice("tttu"), draw.choice("aaab") * 64
        return Takeover(name, topic, sha, draw.randint(1, 3), kind, because, declared, policy)

    def _draw_published(self) -> Published:
        state = self._draw.choice(
            (
                JournalState.SUCCEEDED,
                JournalState.FAILED,
                JournalState.IN_DOUBT,
                JournalState.RETRYING,
            )
        )
        return Published(self._draw.choice(self._ids), self._draw.randint(1, 2), state)

    def _draw_refusal(self) -> Refusal:
        name = self._draw.choice(self._ids)
        return Refusal(name, "t", 0, 1, None, "c" * 64, 1, FAR_MS, "INVALID_MESSAGE", "bad")

    def left(self) -> tuple[Facts, Facts]:
        """Return what both databases hold in the end: rows and history."""
        with self._both.engine.connect() as connection:
            columns = [request.c[name] for name in Row._fields]
            wanted = select(*columns).where(request.c.request_id.in_(self._ids))
            rows = [Row(*one) for one in connection.execute(wanted)]
            kept = select(*(run.c[name] for name in KEPT))
            history = connection.execute(
                kept.where(run.c.request_id.in_(self._ids)).order_by(run.c.id)
            ).all()
        simulated = self._both.simulated
        return (
            (_facts(rows), _runs(history)),
            (_facts(simulated.rows.values()), _runs(simulated.history)),
        )


def _runs(history: Any) -> Facts:
    # Of runs that one statement keeps, the order is the database's own.
    told = ((*one[:6], one[6] is None, *one[7 : len(KEPT)]) for one in history)
    return tuple(sorted(told, key=_named))


def _named(told: Facts) -> str:
    # The name of a state is the same, whoever holds it.
    return str([str(one) for one in told])


def _facts(rows: Any) -> Facts:
    return tuple(sorted((_fact(row) for row in rows), key=str))


def _fact(row: Row | None) -> Facts:
    if row is None:
        return ()
    values = row._asdict()
    return tuple(
        (name, value is None if name in (*TIMES, "message") else value)
        for name, value in values.items()
    )


def _facts_of(applied: Applied) -> Facts:
    return (
        tuple((one.kind, one.reason, _fact(one.row)) for one in applied.verdicts),
        applied.effects,
        {
            name: (one.kind, _fact(one.row), one.resolution)
            for name, one in applied.finished.items()
        },
        tuple(_fact(row) for row in applied.refusals),
        {name: (one.kind, _fact(one.row)) for name, one in applied.takeovers.items()},
        _facts(applied.restored),
        _facts(applied.skipped),
    )


@pytest.mark.long
@pytest.mark.timeout(300)
def test_random_calls_are_answered_alike_and_leave_the_same(both: Both) -> None:
    for number in range(SEQUENCES):
        both.begin()
        sequence = Sequence(both, number)
        for place in range(6):
            real, simulated = sequence.step()
            assert simulated == real, f"sequence {number}, call {place}"
        real, simulated = sequence.left()
        assert simulated == real, f"sequence {number}, what is left"


def test_one_of_all_has_the_turn_until_it_is_over(both: Both) -> None:
    asked = [(one, every_ms) for every_ms in (10**9, 10**9, 0) for one in WORKERS]
    real = [both.journals[worker].sweep_is_due(every_ms) for worker, every_ms in asked]
    assert [both.simulated.take_turn("sweep", every_ms) for _, every_ms in asked] == real
