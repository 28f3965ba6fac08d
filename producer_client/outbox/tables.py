"""The outbox' tables: public, so that they can stand in a migration of the user's own.

`metadata` is what `metadata.create_all` and Alembic take. Whoever makes them otherwise than by
`create_all`, `create` or `onceward-client outbox migrate` writes the version as `create` does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    event,
    text,
)

SCHEMA_VERSION = 2
VERSION = "schema_version"
# Of a group's rows: each has one, by its topic and key, and is sent by whoever has the lane.
LANES = 32

# SQLite's STRICT tables know five types; INTEGER there has 64 bits.
_BIGINT = BigInteger().with_variant(Integer(), "sqlite")
_SMALLINT = SmallInteger().with_variant(Integer(), "sqlite")
# Ids are bytes to us: comparing them by a language's rules is slower and may change with the host.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")


class RowState(StrEnum):
    """Where a row stands."""

    WAITING = "WAITING"
    SENT = "SENT"
    PARKED = "PARKED"


metadata = MetaData()

row = Table(
    "onceward_outbox",
    metadata,
    Column("id", _BIGINT, primary_key=True, autoincrement=True),
    Column("group", _NAME, nullable=False),
    Column("lane", _SMALLINT, nullable=False),
    Column("request_id", _NAME, nullable=False),
    Column("topic", _NAME, nullable=False),
    Column("message_key", LargeBinary),
    Column("value", LargeBinary),
    # JSON: pairs of a name and a value in hex; the trace context is among them.
    Column("headers", Text, nullable=False),
    Column("payload_sha256", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("attempt", _BIGINT, nullable=False),
    Column("deadline_at", _BIGINT, nullable=False),
    Column("created_at", _BIGINT, nullable=False),
    Column("state", Text, nullable=False),
    Column("ended_at", _BIGINT),
    # Where Kafka has it; why it was parked.
    Column("partition", Integer),
    Column("offset", _BIGINT),
    Column("reason", Text),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
_WAITING = text("state = 'WAITING'")
_ENDED = text("state <> 'WAITING'")
# What a relay reads: only what waits is in it, so it stays small. By topic, so that whatever waits
# for one that rests is stepped over, however much it is.
waiting_index = Index(
    "onceward_outbox_waiting",
    row.c.group,
    row.c.lane,
    row.c.topic,
    row.c.id,
    postgresql_where=_WAITING,
    sqlite_where=_WAITING,
)
# What pruning and a person look for.
Index(
    "onceward_outbox_ended",
    row.c.group,
    row.c.state,
    row.c.ended_at,
    postgresql_where=_ENDED,
    sqlite_where=_ENDED,
)

# Whose each lane is now: a lease by the database's clock.
lane = Table(
    "onceward_outbox_lane",
    metadata,
    Column("group", _NAME, primary_key=True),
    Column("lane", _SMALLINT, primary_key=True),
    Column("owner", Text),
    Column("lease_until", _BIGINT, nullable=False),
    sqlite_strict=True,
)

meta = Table(
    "onceward_outbox_meta",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
)


@event.listens_for(meta, "after_create")
def _write_version(target: Table, connection: Connection, **_: Any) -> None:
    connection.execute(meta.insert().values(name=VERSION, value=str(SCHEMA_VERSION)))
