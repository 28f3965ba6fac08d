"""Several workers, or a worker that dies, on one journal."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
from sqlalchemy import event

from consumer.journal import (
    Claim,
    EffectMark,
    FinishKind,
    Journal,
    JournalState,
    Leases,
    VerdictKind,
    Work,
)
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, kinds, new_id, park_dead
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.stack.postgres import dsn

BATCH = 20


def granted(journal: Journal, claims: list[Claim], seed: int) -> list[str]:
    """Claim all of them in batches of a random order; return the ids that may run."""
    shuffled = random.Random(seed).sample(claims, len(claims))
    mine = []
    for start in range(0, len(shuffled), BATCH):
        applied = journal.apply(Work(claims=shuffled[start : start + BATCH]))
        mine += [
            verdict.claim.request_id
            for verdict in applied.verdicts
            if verdict.kind is VerdictKind.RUN
        ]
    return mine


def raced(journals: list[Journal], claims: list[Claim]) -> list[list[str]]:
    with ThreadPoolExecutor(len(journals)) as threads:
        runs = [
            threads.submit(granted, journal, claims, seed) for seed, journal in enumerate(journals)
        ]
        return [run.result(timeout=60) for run in runs]


def test_of_two_workers_that_want_the_same_requests_each_is_granted_to_one(
    open_journal: OpenJournal, database: Database
) -> None:
    claims = [claim(new_id()) for _ in range(500)]
    mine, theirs = raced([open_journal("me"), open_journal("peer")], claims)
    names = sorted(one.request_id for one in claims)
    assert sorted(mine + theirs) == names
    rows = database.query("SELECT owner FROM onceward_request")
    owners = Counter(row["owner"] for row in rows)
    assert (owners["me"], owners["peer"]) == (len(mine), len(theirs))


def test_of_two_workers_that_reopen_the_same_failures_each_is_granted_to_one(
    open_journal: OpenJournal, database: Database
) -> None:
    me, peer = open_journal("me"), open_journal("peer")
    names = [new_id() for _ in range(200)]
    me.apply(Work(claims=[claim(name) for name in names]))
    me.apply(
        Work(finishes=[finish(name, state=JournalState.FAILED, resend=True) for name in names])
    )
    mine, theirs = raced([me, peer], [claim(name, attempt=2) for name in names])
    assert sorted(mine + theirs) == sorted(names)
    assert database.query("SELECT DISTINCT generation FROM onceward_request") == [{"generation": 2}]
    assert database.query("SELECT count(*) AS runs FROM onceward_run") == [{"runs": len(names)}]


def test_workers_that_finish_what_the_other_claims_do_not_hold_each_other_up(
    open_journal: OpenJournal, database: Database
) -> None:
    journals = [open_journal("me"), open_journal("peer")]
    names = sorted(new_id() for _ in range(40))
    halves = [names[:20], names[20:]]
    for journal, half in zip(journals, halves, strict=True):
        journal.apply(Work(claims=[claim(name) for name in half]))

    def work(me: int) -> None:
        others = [claim(name, attempt=2) for name in halves[1 - me]]
        for _ in range(30):
            ends = [finish(name, state=JournalState.FAILED) for name in halves[me]]
            journals[me].apply(Work(finishes=ends, claims=others))

    with ThreadPoolExecutor(2) as threads:
        for run in [threads.submit(work, me) for me in range(2)]:
            run.result(timeout=60)
    ended = database.query("SELECT state, generation, count(*) AS rows FROM onceward_request"
                           " GROUP BY state, generation")  # fmt: skip
    assert ended == [{"state": JournalState.FAILED, "generation": 1, "rows": len(names)}]


CLAIMING = """
import sys
from consumer.journal import Journal, Work
from tests.consumer.journal.samples import claim
url, group = sys.argv[1:]
journal = Journal(url, group=group, worker_id="dead")
for batch in range(100_000):
    journal.apply(Work(claims=[claim(f"{batch}-{number}") for number in range(10)]))
    print(batch, flush=True)
"""


def test_a_worker_that_is_killed_leaves_whole_batches_and_all_that_it_was_told(
    database: Database, open_journal: OpenJournal, group: str
) -> None:
    command = [sys.executable, "-c", CLAIMING, database.url, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        told = [worker.stdout.readline().strip() for _ in range(20)]
        worker.send_signal(signal.SIGKILL)
    rows = database.query("SELECT request_id FROM onceward_request WHERE state = 'CLAIMED'")
    batches = Counter(row["request_id"].split("-")[0] for row in rows)
    assert set(told) <= set(batches)
    assert set(batches.values()) == {10}
    resends = [claim(f"{batch}-0", attempt=2) for batch in told]
    assert set(kinds(open_journal("peer").apply(Work(claims=resends)))) == {VerdictKind.RUNNING}


def test_a_deadlock_is_survived_by_a_second_try(postgres_url: str, group: str) -> None:
    migrated(postgres_url)
    # The journal, which closes the cycle, looks for it this long afterwards; the other one never.
    url = f"{postgres_url}?options=-c%20deadlock_timeout%3D100ms"
    journal = Journal(url, group=group, worker_id="me", statement_timeout_s=30)
    first, second = new_id(), new_id()
    journal.apply(Work(claims=[claim(first), claim(second)]))
    lock = "SELECT * FROM onceward_request WHERE request_id = %s FOR UPDATE"
    with (
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(dsn(postgres_url)) as other,
        psycopg.connect(dsn(postgres_url), autocommit=True) as watcher,
    ):
        other.execute("SET deadlock_timeout = '60s'")
        other.execute(lock, [second])
        waiting = (
            "SELECT 1 FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )

        def take_both() -> None:
            other.execute(lock, [first])
            other.commit()

        tries: list[Future[None]] = []

        @event.listens_for(journal._session._engine, "before_cursor_execute")
        def cross(connection: object, cursor: object, statement: str, *_: object) -> None:
            # It has the first one, and is about to ask for the second.
            if "coalesce(onceward_request.effect_at" in statement:
                tries.append(tries[0] if tries else threads.submit(take_both))
                if len(tries) == 1:
                    eventually(lambda: watcher.execute(waiting).fetchone())

        @event.listens_for(journal._session._engine, "rollback")
        def give_way(connection: object) -> None:
            # Its locks are free by now. A second try could take the first one before the other
            # transaction has woken up, and close the cycle again.
            tries[0].result(timeout=30)

        applied = journal.apply(Work(finishes=[finish(first)], effects=[EffectMark(second, 1)]))
    assert len(tries) == 2
    assert applied.finished[first, 1].kind is FinishKind.WRITTEN
    assert applied.effects == {(second, 1)}
    journal.close()


def test_a_sweep_leaves_a_worker_alone_that_renewed_while_it_looked(
    postgres_url: str, group: str
) -> None:
    migrated(postgres_url)
    journal = Journal(postgres_url, group=group, worker_id="me")
    leases = Leases(postgres_url, group=group, worker_id="me")
    leases.register(0)
    journal.apply(Work(claims=[claim(new_id())]))

    @event.listens_for(journal._session._engine, "before_cursor_execute")
    def renew(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE onceward_request"):
            leases.renew(60)

    assert park_dead(journal, 10) == []
    journal.close()
    leases.close()
