"""The journal's tables as the statements see them (docs: Tables).

The migrations make them; a test compares the two. Their names and columns are public: the audit and
other programs read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.types import TypeEngine

SCHEMA_VERSION = 6

# SQLite's STRICT tables know five types; INTEGER there has 64 bits.
BIGINT = BigInteger().with_variant(Integer(), "sqlite")
SMALLINT = SmallInteger().with_variant(Integer(), "sqlite")
# Ids are bytes to us: comparing them by a language's rules is slower and may change with the host.
NAME = Text().with_variant(Text(collation="C"), "postgresql")


class Flag(TypeDecorator[bool]):
    """A truth value kept as 0 or 1, which both databases and JDBC read the same way."""

    impl = SmallInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else SmallInteger())

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> Any:
        return None if value is None else int(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


metadata = MetaData()

request = Table(
    "onceward_request",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("request_id", NAME, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BIGINT, nullable=False),
    Column("message_key", LargeBinary),
    Column("payload_sha256", Text, nullable=False),
    Column("attempt", BIGINT, nullable=False),
    Column("generation", BIGINT, nullable=False),
    Column("effect_kind", Text),
    Column("effect_at", BIGINT),
    Column("deadline_at", BIGINT, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("claimed_at", BIGINT),
    Column("due_at", BIGINT),
    Column("finished_at", BIGINT),
    Column("code", Text),
    Column("message", Text),
    Column("result", Text),
    Column("resend", Flag, nullable=False, server_default="0"),
    Column("by", Text),
    Column("published_at", BIGINT),
    Column("dead_letter_at", BIGINT),
    Column("voids", Integer, nullable=False, server_default="0"),
    Column("outcome_generation", BIGINT),
    Column("order_key", Text),
    Column("in_doubt", Text),
    sqlite_strict=True,
)
# Failed for good, and no dead letter says so yet.
DEAD = (
    "state = 'FAILED' AND resend = 0 AND dead_letter_at IS NULL "
    "AND coalesce(code, '') <> 'PAYLOAD_GONE'"
)
# Ended, and the record of that is still to be written. Null where nobody wants one.
OUTCOME = (
    "outcome_generation < generation AND state IN ('SUCCEEDED', 'FAILED', 'EXPIRED', 'SKIPPED')"
)
# Has its key, so that others of it wait.
HOLDS = "order_key IS NOT NULL AND state IN ('CLAIMED', 'RETRYING')"
DOUBT = "state = 'IN_DOUBT'"
CLAIMED = "state = 'CLAIMED'"
UNTOLD = "published_at IS NULL AND state <> 'CLAIMED'"
RETRYING = "state = 'RETRYING'"
# Something is still to be done about it: one of the conditions above holds.
IS_OPEN = (
    "published_at IS NULL OR state IN ('CLAIMED', 'RETRYING', 'IN_DOUBT') "
    f"OR ({DEAD}) OR ({OUTCOME})"
)

# A copy of the columns below, of each open request; only PostgreSQL has it (see
# `consumer.journal.open_requests`).
OPEN_COLUMNS = (
    "group",
    "request_id",
    "topic",
    "generation",
    "state",
    "owner",
    "claimed_at",
    "due_at",
    "finished_at",
    "code",
    "resend",
    "published_at",
    "dead_letter_at",
    "outcome_generation",
    "order_key",
)
open_request = Table(
    "onceward_open",
    metadata,
    *(
        Column(one.name, one.type, primary_key=one.primary_key, nullable=one.nullable)
        for one in (request.c[name] for name in OPEN_COLUMNS)
    ),
    prefixes=["UNLOGGED"],
)
# The looks through all requests for the open ones; after a complete one the copy has them all.
open_look = Table(
    "onceward_open_look",
    metadata,
    Column("look", NAME, primary_key=True),
    Column("seen_at", BIGINT, nullable=False),
    Column("complete", SmallInteger, nullable=False),
    prefixes=["UNLOGGED"],
)
# Each is read by one sweep: by name, the columns and the condition of its rows.
PARTIAL_INDEXES: Mapping[str, tuple[tuple[str, ...], str]] = {
    # A peer's sweep; running requests.
    "claimed": (("group", "owner"), CLAIMED),
    # The repair of statuses; rows without a confirmed status.
    "untold": (("group", "finished_at"), UNTOLD),
    # The sweep of overdue retries.
    "retrying": (("group", "due_at"), RETRYING),
    # The writer of dead letters; rows that owe a letter.
    "dead": (("group", "finished_at", "request_id"), DEAD),
    # The writer of outcomes; rows that owe an outcome.
    "outcome": (("group", "finished_at", "request_id"), OUTCOME),
    # The unfinished requests of each key.
    "order": (("group", "order_key"), HOLDS),
    # The count of doubts.
    "doubt": (("group", "topic", "finished_at"), DOUBT),
}
for _name, (_columns, _condition) in PARTIAL_INDEXES.items():
    Index(
        f"onceward_request_{_name}",
        *(request.c[column] for column in _columns),
        sqlite_where=text(_condition),
    ).ddl_if(dialect="sqlite")
    Index(
        f"onceward_open_{_name}",
        *(open_request.c[column] for column in _columns),
        postgresql_where=text(_condition),
    )
# Pruning reads this.
Index("onceward_request_deadline", request.c.group, request.c.deadline_at)
# The audit's window reads this. Rows come in the order of this time, so a block range index on
# PostgreSQL costs almost nothing; SQLite has none and takes a plain one.
Index("onceward_request_window", request.c.claimed_at, postgresql_using="brin")

run = Table(
    "onceward_run",
    metadata,
    Column("id", BIGINT, primary_key=True, autoincrement=True),
    Column("group", NAME, nullable=False),
    Column("request_id", NAME, nullable=False),
    Column("generation", BIGINT, nullable=False),
    Column("attempt", BIGINT, nullable=False),
    Column("owner", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BIGINT, nullable=False),
    Column("claimed_at", BIGINT),
    Column("effect_at", BIGINT),
    Column("ended_at", BIGINT),
    Column("outcome", Text, nullable=False),
    Column("by_whom", Text, nullable=False),
    Column("allowed_by", Text),
    Column("effect_kind", Text),
    Column("in_doubt", Text),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
# A person and pruning look up by request; the audit reads all of this small table.
Index("onceward_run_request", run.c.group, run.c.request_id)

worker = Table(
    "onceward_worker",
    metadata,
    Column("worker_id", NAME, primary_key=True),
    Column("group", NAME, nullable=False),
    Column("lease_until", BIGINT, nullable=False),
    Column("started_at", BIGINT, nullable=False),
    sqlite_strict=True,
)

meta = Table(
    "onceward_meta",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
)

# The actions of people on failures and doubts: only ever appended to.
action = Table(
    "onceward_action",
    metadata,
    Column("id", BIGINT, primary_key=True, autoincrement=True),
    Column("group", NAME, nullable=False),
    Column("request_id", NAME),
    Column("action", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", BIGINT, nullable=False),
    Column("reason", Text),
    Column("redrive_id", NAME),
    Column("generation", BIGINT),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
Index("onceward_action_request", action.c.group, action.c.request_id)

redrive = Table(
    "onceward_redrive",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("redrive_id", NAME, primary_key=True),
    Column("by", Text, nullable=False),
    Column("reason", Text),
    Column("started_at", BIGINT, nullable=False),
    Column("updated_at", BIGINT, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", Text),
    Column("filter", Text, nullable=False),
    Column("spans", Text, nullable=False),
    Column("positions", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("unconfirmed", Text, nullable=False),
    Column("counts", Text, nullable=False),
    sqlite_strict=True,
)

# One row for each topic that was ever paused for its group: the latest time.
pause = Table(
    "onceward_pause",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("topic", NAME, primary_key=True),
    Column("since", BIGINT, nullable=False),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("resumed_at", BIGINT),
    Column("resumed_by", Text),
    sqlite_strict=True,
)

# How far pruning has forgotten each partition: the offset behind the last of it, and the latest
# deadline among it.
forgotten = Table(
    "onceward_forgotten",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("topic", NAME, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BIGINT, nullable=False),
    Column("deadline_at", BIGINT, nullable=False),
    Column("pruned_at", BIGINT, nullable=False),
    sqlite_strict=True,
)
