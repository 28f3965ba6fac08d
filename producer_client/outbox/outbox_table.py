"""The outbox as relays see it: they take lanes, read rows in order, and mark sent ones.

A row's lane comes from its topic and key, and one relay at a time has a lane: so several share the
work, and rows of a key are sent in the order of their ids. A lease by the database's clock holds a
lane, under a name that is new for each batch: a relay that lost it marks nothing.

Rows of one key become visible in the order of their commits. Transactions that lock a row of their
own (an account) before they send also write to the outbox in that order. Between other transactions
there is no order to preserve.

Nothing here waits for the disk: if a crash of the database loses a mark, the request is sent again,
and answered from the journal.
"""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
)

from feedback.sql.session import Session
from producer_client.outbox.faults import translate
from producer_client.outbox.lane_statements import (
    COUNT_PARKED,
    FREE,
    GROUP_LANES,
    HEADS,
    MARK_POSTGRES,
    MARK_SQLITE,
    NEED_NOT_LAST,
    NEXT_GROUP,
    PARK,
    PARK_TOPIC,
    PRUNE,
    RELEASE,
    RENEW,
    STANDING,
    TAKE,
    WAITS_FOR,
    insert_lanes,
    select_first_rows,
)
from producer_client.outbox.row import WaitingRow, row_of
from producer_client.outbox.schema import check_version
from producer_client.outbox.tables import LANES

# The lanes of one batch: enough for its size, and some are left for other relays.
LANES_AT_ONCE = 8
# And so many of their topics: each is a part of one statement, and SQLite allows some hundreds.
HEADS_AT_ONCE = 64
PRUNE_AT_ONCE = 1000
MOST_GROUPS = 20
REASON_LENGTH = 500


class RowBatch(NamedTuple):
    """Rows that this relay has to send.

    Attributes:
        owner: the name on their lanes' leases.
        rows: in the order of their ids.
    """

    owner: str
    lanes: tuple[int, ...]
    rows: list[WaitingRow]


class LaneHead(NamedTuple):
    """A topic that has rows in a lane."""

    lane: int
    topic: str


class KafkaPlace(NamedTuple):
    """The place of a row's record in Kafka; empty when it was answered without being sent."""

    partition: int | None
    offset: int | None


class OutboxState(NamedTuple):
    """The state of a group's outbox.

    Attributes:
        oldest_ms: age of the row that has waited longest.
    """

    waiting: int
    oldest_ms: int
    parked: int


class OutboxTable:
    """The rows of one group; for one thread, on a connection of its own.

    Args:
        lease_s: how long a batch's lanes stay this relay's without renewal.

    Raises:
        SettingsError: the URL is malformed or empty.
        NotAvailable: the driver for this database is not installed.
    """

    def __init__(self, url: str, *, group: str, lease_s: float, timeout_s: float) -> None:
        self._session = Session(
            url,
            timeout_s=timeout_s,
            translate=translate,
            at_connect=("PRAGMA synchronous=NORMAL",),
            section="outbox",
        )
        self._group = group
        self._lease_ms = math.ceil(lease_s * 1000)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._session.dialect

    def prepare(self) -> None:
        """Check the tables, and make this group's lanes where they are missing."""
        with self._session.transaction() as connection:
            check_version(connection)
            known = set(connection.execute(GROUP_LANES, {"g": self._group}).scalars())
            missing = [
                {"group": self._group, "lane": number, "lease_until": 0}
                for number in range(LANES)
                if number not in known
            ]
            if missing:
                connection.execute(insert_lanes(self.dialect), missing)

    def take(
        self,
        *,
        limit: int,
        limit_bytes: int,
        resting: Collection[str] = (),
        only: str | None = None,
    ) -> RowBatch | None:
        """Take lanes with waiting rows, and return the first of these rows; None without any.

        The batch may be empty, when another relay has just sent its rows.

        Args:
            limit: of rows, at least one a lane.
            limit_bytes: of the rows together, but for one a lane.
            resting: topics to leave alone.
            only: the one topic to look for; None for any.
        """
        # Without SQLite's write lock, which others want.
        with self._session.transaction(read_only=True) as connection:
            heads = [
                one
                for one in map(LaneHead._make, connection.execute(HEADS, {"g": self._group}))
                if one.topic not in resting and only in (None, one.topic)
            ]
        if not heads:
            return None
        wanted = {"g": self._group, "lanes": sorted({one.lane for one in heads})}
        with self._writing() as connection:
            lanes = list(connection.execute(FREE, wanted | {"most": LANES_AT_ONCE}).scalars())
            if not lanes:
                return None
            owner = uuid.uuid4().hex
            held = {"g": self._group, "lanes": lanes, "whose": owner, "lease": self._lease_ms}
            connection.execute(TAKE, held)
            heads = [one for one in heads if one.lane in lanes]
            if len(heads) > HEADS_AT_ONCE:
                # A random choice, so that in the end each has its turn.
                heads = random.sample(heads, HEADS_AT_ONCE)
            bounds = {"most": max(1, limit // len(lanes)), "bytes": limit_bytes // len(lanes)}
            found = connection.execute(select_first_rows(len(heads)), self._named(heads) | bounds)
            rows = [row_of(one) for one in found]
        return RowBatch(owner, tuple(lanes), sorted(rows, key=lambda one: one.id))

    def renew(self, batch: RowBatch) -> None:
        """Renew the leases of a batch's lanes, those that are still ours."""
        with self._writing() as connection:
            connection.execute(RENEW, {**self._mine(batch), "lease": self._lease_ms})

    def settle(
        self,
        batch: RowBatch,
        *,
        sent: Mapping[int, KafkaPlace],
        parked: Mapping[int, str],
        holds: bool = False,
    ) -> list[WaitingRow]:
        """Mark the rows that were sent or parked, and release the lanes; return the marked rows.

        Rows of lanes that another relay has by now are left to it.

        Args:
            sent: by the row's id.
            parked: reasons, by the row's id.
            holds: whether the lanes are still needed.

        Raises:
            OutboxUnavailable: the database is away; the sent rows will be sent again.
        """
        with self._writing() as connection:
            if holds:
                found = connection.execute(RENEW, self._mine(batch) | {"lease": self._lease_ms})
            else:
                found = connection.execute(RELEASE, self._mine(batch))
            kept = set(found.scalars())
            mine = [one for one in batch.rows if one.lane in kept]
            marks = [[one.id, *sent[one.id]] for one in mine if one.id in sent]
            if marks:
                self._mark(connection, marks)
            aside = [
                {"number": one.id, "why": parked[one.id][:REASON_LENGTH]}
                for one in mine
                if one.id in parked
            ]
            if aside:
                connection.execute(PARK, aside)
        return [one for one in mine if one.id in sent or one.id in parked]

    def waits_for(self, topic: str) -> bool:
        """Return whether rows of a topic wait, with or without a relay."""
        given = {"g": self._group, "of": topic, "lanes": list(range(LANES))}
        with self._session.transaction(read_only=True) as connection:
            return connection.execute(WAITS_FOR, given).first() is not None

    def park(self, topic: str, *, reason: str, most: int) -> int:
        """Park so many of the rows of a topic, except those in a relay's lanes.

        Args:
            reason: as a person sees it.
            most: rows at once.

        Returns:
            How many were parked.
        """
        lanes = {"g": self._group, "lanes": list(range(LANES)), "most": LANES}
        with self._writing() as connection:
            # No relay takes them meanwhile.
            free = list(connection.execute(FREE, lanes).scalars())
            given = {"g": self._group, "lanes": free, "of": topic, "most": most}
            why = {"why": reason[:REASON_LENGTH]}
            return connection.execute(PARK_TOPIC, given | why).rowcount

    def prune(self, *, keep_s: float) -> int:
        """Remove some rows that were sent longer ago than that; return how many."""
        given = {"g": self._group, "keep": int(keep_s * 1000), "most": PRUNE_AT_ONCE}
        with self._writing() as connection:
            return connection.execute(PRUNE, given).rowcount

    def standing(self) -> OutboxState:
        """Return the state of the group's outbox."""
        with self._session.transaction(read_only=True) as connection:
            waiting, oldest, now = connection.execute(STANDING, {"g": self._group}).one()
            parked = connection.execute(COUNT_PARKED, {"g": self._group}).scalar_one()
        return OutboxState(waiting, 0 if oldest is None else max(0, now - oldest), parked)

    def unserved_groups(self) -> list[str]:
        """Return groups whose rows wait although no relay was ever started for them.

        Their writers have another `[kafka] group` than all relays. At most `MOST_GROUPS` groups are
        checked.
        """
        found = []
        with self._session.transaction(read_only=True) as connection:
            group: str | None = ""
            for _ in range(MOST_GROUPS):
                group = connection.execute(NEXT_GROUP, {"after": group}).scalar()
                if group is None:
                    break
                if connection.execute(GROUP_LANES.limit(1), {"g": group}).first() is None:
                    found.append(group)
        return found

    def close(self) -> None:
        """Close the connection; the next call opens one again."""
        self._session.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._session.transaction() as connection:
            if self.dialect == "postgresql":
                # For this transaction alone: a pooler may give the connection to others after it.
                connection.execute(NEED_NOT_LAST)
            yield connection

    def _named(self, heads: Sequence[LaneHead]) -> dict[str, Any]:
        named: dict[str, Any] = {"g": self._group}
        for at, one in enumerate(heads):
            named |= {f"lane_{at}": one.lane, f"topic_{at}": one.topic}
        return named

    def _mine(self, batch: RowBatch) -> dict[str, Any]:
        return {"g": self._group, "whose": batch.owner}

    def _mark(self, connection: Connection, marks: Sequence[Sequence[int | None]]) -> None:
        if self.dialect == "sqlite":
            connection.execute(MARK_SQLITE, {"marks": json.dumps(marks)})
            return
        numbers, partitions, offsets = (list(column) for column in zip(*marks, strict=True))
        given = {"numbers": numbers, "partitions": partitions, "offsets": offsets}
        connection.execute(MARK_POSTGRES, given)
