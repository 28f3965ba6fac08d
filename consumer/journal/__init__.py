"""The journal: the truth about every request, in SQL (docs: The guarantee, How it works, Tables).

The flow: a worker's loop hands batches of claims, effects, finishes, refusals and confirmed
statuses to `Journal.apply`, one transaction a call, and gets a verdict for each.

- `journal`: the worker's object; `swept_journal`: its sweeper's part. `commits`: one call's writes,
  in halves around an item that the database refuses. `work`: these writes, in order.
- `records`: arguments and results as frozen values. `verdict`: the rules of claims, pure.
- `takeover_rule`: how a run without an end may be followed, pure; `takeover` carries it out.
- `claiming`, `skipping` (refusals too), `finishing`: each kind of write for a batch; `claim_sql`
  and `history` hold the statements that they share. `ordering`: who goes first of one key. Its
  locks stand where there is no row to lock.
- `batch`: how a batch reaches the database. `clock`: the database's clock in SQL.
- `restoring`: writes a worker's runs again that the database has lost.
- `told_rule`: the new state of a row that is behind the status in Redis, pure; `catching_up` writes
  it. `lost_rows`: its statements, and the reason that the history gives for a run that was
  overwritten so.
- `leases`: proof that a worker lives. `sweep`: peers settle the claims of dead workers. `pruning`:
  deletes old rows; `forgetting`: keeps pruned requests from running again.
- `dead_claims`: finds claims of dead workers, also those that no handler is left for. `gone_owners`
  remembers the dead that have none left, pure.
- `retrying`: whose next run is overdue. `pauses`: which topics the group does not run now.
- `waiting`: rows that wait for a record about them; `owed_rows` has its kinds.
- `republish`: which statuses are written again to an empty Redis, and by which worker.
- `lookup`: reading for a person: rows, their history, the actions of people (`actions`).
  `searching` looks for some of them.
- `open_requests`: the table of those about which something is still to be done.
- `topic_load`: how many requests of a topic are claimed, and how many wait for their next run.
- `later_successes`: requests of a failure's key that have succeeded after it.
- `redrive_work`: redrives, begun, found, taken over (`redrive_row`), and one at work.
  `redrive_rule`: which failures may be sent back, pure; `reopening` carries it out, and says what
  was taken and perhaps not sent. `resolving`: a person's decision about one request.
  `beside`: a failure in another system of a record that has a row here, pure.
- `pacing`: how often a slow query runs, and how far back it looks.
- `doubts`: the open doubts, how many, and since when.
- `workers`: the leases of a group, and the claims that a dead worker has left.
- `standing`: the settings of a PostgreSQL, for `check`.
- `transactional`: transactions of handlers, for the children.
- `group_journal`: the base class of these objects. `session`: its connection, over `feedback/sql`.
  `errors`: the errors of a database.
- `tables`: the tables, `wait_tables` those of the registry. `state_literals`: states as partial
  indexes need them. `schema`: version, id, `migrate`. `migrations`: Alembic's files.

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

from consumer.journal.dead_claims import Unhandled
from consumer.journal.errors import DataRefused, JournalUnavailable, JournalVersionError
from consumer.journal.journal import Journal
from consumer.journal.leases import FarLease, Leases, LeaseTimes
from consumer.journal.pruning import PrunedRows
from consumer.journal.records import (
    DISOWNED,
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
    Overdue,
    OwnRun,
    Published,
    Refusal,
    Retried,
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
from consumer.journal.told_rule import ToldRun

__all__ = [
    "DISOWNED",
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
    "Overdue",
    "OwnRun",
    "PrunedRows",
    "Published",
    "Refusal",
    "Retried",
    "Row",
    "Run",
    "Skip",
    "Takeover",
    "TakeoverKind",
    "TakeoverResult",
    "TakeoverResultKind",
    "ToldRun",
    "Unhandled",
    "VerdictKind",
    "migrate",
]
