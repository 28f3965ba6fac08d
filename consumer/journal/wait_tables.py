"""The tables of unfinished requests, as the registry's statements see them.

They are filled from the wait topics and hold no payload: only where the record of each is. All
times are epoch milliseconds, which are instants without a zone; offsets have 64 bits.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text

from consumer.journal.tables import BIGINT, NAME, metadata

# One row for each request that has a wait record and no tombstone: its latest record.
wait = Table(
    "onceward_wait",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("wait_topic", NAME, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("request_id", NAME, primary_key=True),
    Column("offset", BIGINT, nullable=False),
    Column("expires_at", BIGINT, nullable=False),
    # Empty: nobody, or it is not said.
    Column("holder", Text, nullable=False),
    Column("generation", BIGINT, nullable=False),
    Column("written_at", BIGINT, nullable=False),
    sqlite_strict=True,
)
# Wait records past their expiry.
Index(
    "onceward_wait_due",
    wait.c.group,
    wait.c.wait_topic,
    wait.c.partition,
    wait.c.expires_at,
)

# Records on their way to the dead letters: here before the letter is sent, gone after the
# tombstone.
expiry = Table(
    "onceward_wait_expiry",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("wait_topic", NAME, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("request_id", NAME, primary_key=True),
    Column("offset", BIGINT, nullable=False),
    Column("expires_at", BIGINT, nullable=False),
    Column("holder", Text, nullable=False),
    Column("generation", BIGINT, nullable=False),
    Column("begun_at", BIGINT, nullable=False),
    # Its letter is in this partition of the dead letter topic, not before this offset, or nowhere.
    Column("letter_partition", Integer, nullable=False),
    Column("letter_mark", BIGINT, nullable=False),
    # Of a tombstone that came after it had begun.
    Column("ended_offset", BIGINT),
    sqlite_strict=True,
)

# How far each partition of a wait topic was read, and whose it is.
partition = Table(
    "onceward_wait_partition",
    metadata,
    Column("group", NAME, primary_key=True),
    Column("wait_topic", NAME, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    # Kafka's id of the topic: one that was made anew has another.
    Column("topic_id", Text, nullable=False),
    Column("position", BIGINT, nullable=False),
    Column("owner", Text),
    Column("lease_until", BIGINT, nullable=False),
    sqlite_strict=True,
)
