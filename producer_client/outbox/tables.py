"""The outbox's tables: public, so that they can be part of a user's own migration.

`metadata` is for `metadata.create_all` and Alembic. A caller that makes the tables otherwise than
by `create_all`, `create` or `onceward-client outbox migrate` must write the version as `create`
does.
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
# A group's rows have so many lanes: a row's topic and key decide its lane, and the relay that has
# the lane sends it.
LANES = 32

# SQLite's STRICT tables know five types; INTEGER there has 64 bits.
_BIGINT = BigInteger().with_variant(Integer(), "sqlite")
_SMALLINT = SmallInteger().with_variant(Integer(), "sqlite")
# Ids are bytes to us: to compare them by a language's rules is slower and may change with the host.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")


class RowState(StrEnum):
    """The state of a row."""

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
    # Its place in Kafka; why it was parked.
    Column("partition", Integer),
    Column("offset", _BIGINT),
    Column("reason", Text),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
_WAITING = text("state = 'WAITING'")
_ENDED = text("state <> 'WAITING'")
# For relays: it has only waiting rows, so it stays small. By topic, so that the rows of a resting
# topic are skipped, however many they are.
waiting_index = Index(
    "onceward_outbox_waiting",
    row.c.group,
    row.c.lane,
    row.c.topic,
    row.c.id,
    postgresql_where=_WAITING,
    sqlite_where=_WAITING,
)
# For pruning, and for lists.
Index(
    "onceward_outbox_ended",
    row.c.group,
    row.c.state,
    row.c.ended_at,
    postgresql_where=_ENDED,
    sqlite_where=_ENDED,
)

# The owner of each lane: a lease by the database's clock.
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
