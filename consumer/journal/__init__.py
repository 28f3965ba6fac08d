"""The journal: the truth about every request, in SQL (docs: The guarantee, How it works, Tables).

The flow: a worker's loop hands batches of claims, effects, finishes, refusals and confirmed
statuses to `Journal.apply`, one transaction a call, and gets a verdict for each.

- `journal`: the worker's object; `swept_journal`: its sweeper's part. `commits`: one call's writes,
  in halves around an item that the database refuses. `work`: these writes, in order.
  `journal_writer`: the worker that writes, with its transaction.
- `claims/`: who may run a request, and how a run ends.
- `sweeps/`: rows that nobody goes on with, and old ones.
- `losses/`: what is written again when the database or Redis has lost it.
- `redrive/`: a person's word on failures and doubts.
- `records`: arguments and results as frozen values.
- `history`: reading rows, and runs that are overwritten. `ordering`: who goes first of one key. Its
  locks stand where there is no row to lock.
- `batch`: how a batch reaches the database. `clock`: the database's clock in SQL.
- `leases`: proof that a worker lives. `pauses`: which topics the group does not run now.
- `waiting`: rows that wait for a record about them; `owed_rows` has its kinds.
- `open_requests`: those about which something is still to be done, apart from all that have ended.
- `topic_load`: how many requests of a topic are claimed, and how many wait for their next run.
- `lookup`, `searching`: reading for a person: rows, their history, the actions of people
  (`actions`). `appended`: which requests were changed since a moment.
- `pacing`: how often a slow query runs, and how far back it looks.
- `doubts`: the open doubts, how many, and since when. `topic_load`: what of a topic is claimed.
- `workers`: the leases of a group, and the claims that a dead worker has left.
- `database_settings`: those of a PostgreSQL, for `check`.
- `transactional`: transactions of handlers, for the children.
- `group_journal`: the base class of these objects. `session`: its connection, over `feedback/sql`.
  `errors`: the errors of a database.
- `tables`, `wait_tables`: the tables. `state_literals`: states as partial indexes need them.
  `schema`: version, id, `migrate`. `migrations`: Alembic's files.

Decisions taken, and their cost. A batch is one statement, so a value that the database refuses
costs the whole transaction: it is halved until the offender is alone, which takes about
2 log2(n) transactions and happens rarely. Every changed row is read by its generation, and locked
before it is overwritten, so a verdict is never a guess. Of the two databases only the way a batch
reaches them, the clock and the locks differ; the same tests run on both.

Names. A `row` is a request as it stands, None where it has none. Times are epoch ms by the clock of
the database, and so is `now`; `result` is JSON text.

Not obvious: A first claim is answered without reading its row back. A row of state EXPIRED, a
refusal, or one that is SKIPPED by another has no `claimed_at`: it never ran. The version table of
Alembic has a name of its own, because a user's tables may be in the same database.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer.journal.errors import (
        DataRefused,
        JournalUnavailable,
        JournalVersionError,
    )
    from consumer.journal.journal import Journal
    from consumer.journal.leases import FarLease, Leases, LeaseTimes
    from consumer.journal.losses.told_rule import ToldRun
    from consumer.journal.records import (
        RESULT_REFUSED,
        WORKER_DIED,
        Applied,
        Claim,
        ClaimVerdict,
        DeadEnd,
        EffectMark,
        Finish,
        FinishKind,
        FinishResult,
        JournalState,
        OverdueRetry,
        OwnRun,
        Published,
        Refusal,
        RetriedRuns,
        Row,
        Run,
        Skip,
        Takeover,
        TakeoverKind,
        TakeoverResult,
        TakeoverResultKind,
        VerdictKind,
    )
    from consumer.journal.schema import Migrated, migrate
    from consumer.journal.sweeps.dead_claims import UnhandledRequest
    from consumer.journal.sweeps.pruning import PrunedRows
    from consumer.journal.work import Work
else:
    from feedback.lazy import lazy_names

    # Who reads rows for a person needs nothing of the batches that a worker writes.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "consumer.journal.sweeps.dead_claims": ("UnhandledRequest",),
            "consumer.journal.errors": ("DataRefused", "JournalUnavailable", "JournalVersionError"),
            "consumer.journal.journal": ("Journal",),
            "consumer.journal.leases": ("FarLease", "Leases", "LeaseTimes"),
            "consumer.journal.sweeps.pruning": ("PrunedRows",),
            "consumer.journal.records": (
                "RESULT_REFUSED",
                "WORKER_DIED",
                "Applied",
                "Claim",
                "ClaimVerdict",
                "DeadEnd",
                "EffectMark",
                "Finish",
                "FinishKind",
                "FinishResult",
                "JournalState",
                "OverdueRetry",
                "OwnRun",
                "Published",
                "Refusal",
                "RetriedRuns",
                "Row",
                "Run",
                "Skip",
                "Takeover",
                "TakeoverKind",
                "TakeoverResult",
                "TakeoverResultKind",
                "VerdictKind",
            ),
            "consumer.journal.schema": ("Migrated", "migrate"),
            "consumer.journal.losses.told_rule": ("ToldRun",),
            "consumer.journal.work": ("Work",),
        },
    )

__all__ = [
    "RESULT_REFUSED",
    "WORKER_DIED",
    "Applied",
    "Claim",
    "ClaimVerdict",
    "DataRefused",
    "DeadEnd",
    "EffectMark",
    "FarLease",
    "Finish",
    "FinishKind",
    "FinishResult",
    "Journal",
    "JournalState",
    "JournalUnavailable",
    "JournalVersionError",
    "LeaseTimes",
    "Leases",
    "Migrated",
    "OverdueRetry",
    "OwnRun",
    "PrunedRows",
    "Published",
    "Refusal",
    "RetriedRuns",
    "Row",
    "Run",
    "Skip",
    "Takeover",
    "TakeoverKind",
    "TakeoverResult",
    "TakeoverResultKind",
    "ToldRun",
    "UnhandledRequest",
    "VerdictKind",
    "Work",
    "migrate",
]
