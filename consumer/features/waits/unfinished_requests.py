"""Makes a delivery, or a doubt, of a wait record that was taken over.

The order of the log decides. Of several workers that take a request over at once, each writes that
it is the holder of the next generation; the one whose record stands first has it, and each of them
sees that when it has read as far as its own record. A tombstone ends all records of its request
before it. A taking behind it, or what puts one right, was meant for one that had ended.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from consumer.features.waits.declared import declared_by, may_run_again
from consumer.features.waits.wait_record import GIVEN_BACK, Tombstone, WaitRecord
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import RefusedRecord, receive
from consumer.intake.buffer import Received
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import RedisUnavailable
from feedback.statuses import Status

# How many of the requests that ended last are known as such, in each partition: what is written
# about one in the same moment follows within a few.
REMEMBERED = 1000


class UnfinishedRequest(NamedTuple):
    """An unfinished request; its payload stays in Kafka.

    Args:
        offset: of its latest wait record.
        generation, holder, expires_at, effect, in_doubt: as that says.
    """

    request_id: str
    offset: int
    generation: int
    holder: str | None
    expires_at: int
    effect: str | None = None
    in_doubt: str | None = None


class Taking(Enum):
    """The answer of a record to a taking that we have asked for."""

    OURS = "ours"
    LOST = "lost"  # another worker was quicker, and has it
    OVER = "over"  # it had ended before: the record must go again
    # Not ours, and of a request that had ended before as well: it must go again too.
    STRAY = "stray"


class UnfinishedRequests:
    """The unfinished requests of one partition, by id.

    Attributes:
        is_current: all that the partition had was read. Of records that come from then on, none was
            left out by compaction, which may have removed a first taking behind a tombstone.
    """

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._entries: dict[str, UnfinishedRequest] = {}
        self._asked: dict[str, int] = {}
        self._ended: dict[str, None] = {}
        self.is_current = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[UnfinishedRequest]:
        return iter(self._entries.values())

    @property
    def asked(self) -> Collection[str]:
        return self._asked.keys()

    def holders(self) -> set[str]:
        return {one.holder for one in self if one.holder}

    def ask(self, entry: UnfinishedRequest) -> int:
        """Note that we ask for this request; return the generation of the taking."""
        self._asked[entry.request_id] = entry.generation + 1
        return entry.generation + 1

    def withdraw(self, request_id: str) -> None:
        """Forget that we asked: the record was not written."""
        self._asked.pop(request_id, None)

    def apply(self, offset: int, said: WaitRecord | Tombstone) -> Taking | None:
        """Take in the next record; return its answer to a taking of ours, or that it must go."""
        known = self._entries.get(said.request_id)
        if isinstance(said, Tombstone):
            if known is None or known.generation >= said.taking:
                self._end(said.request_id)
            # Else it was sent again meanwhile, and has a first taking that is to stay.
            return None
        is_ours = self._is_asked(said)
        if is_ours:
            del self._asked[said.request_id]
        elif said.request_id in self._ended and _follows(said):
            return Taking.STRAY
        self._ended.pop(said.request_id, None)
        if known is not None and _is_late(said, known):
            return Taking.LOST if is_ours else None
        self._entries[said.request_id] = UnfinishedRequest(
            said.request_id,
            offset,
            said.generation,
            said.holder,
            said.expires_at,
            None if said.effect is None else sys.intern(said.effect),
            None if said.in_doubt is None else sys.intern(said.in_doubt),
        )
        if not is_ours:
            return None
        return Taking.OVER if known is None else Taking.OURS

    def of(self, request_id: str) -> UnfinishedRequest | None:
        return self._entries.get(request_id)

    def _end(self, request_id: str) -> None:
        self._entries.pop(request_id, None)
        if self.is_current:
            self._ended[request_id] = None
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]

    def _is_asked(self, said: WaitRecord) -> bool:
        is_mine = said.holder == self._worker_id
        return is_mine and self._asked.get(said.request_id) == said.generation


def _is_late(said: WaitRecord, known: UnfinishedRequest) -> bool:
    """Whether another worker had taken this generation before.

    A first taking is never late: its record was read from the request's own topic again.
    """
    is_another = said.holder != known.holder
    return is_another and 1 < said.generation <= known.generation


def _follows(said: WaitRecord) -> bool:
    """Whether a record stands for a later taking than the first, of a request that may have begun.

    What was given back has not begun, and may be of a later sending than the one that has ended.
    """
    return said.generation > 1 and said.holder != GIVEN_BACK


class StatusReader(Protocol):
    """The text that clients see."""

    def read(self, request_id: str) -> Status: ...


class WaitDeliveries:
    """Makes deliveries of wait records, and says which of them may run.

    Args:
        handlers: those with `delivery="at_least_once"`, by topic.
        statuses: without a journal they alone know of the runs before.
        group: the worker's.
        default_deadline_s: for requests without a deadline, where the handler names none.
        has_journal: whether claims decide on runs: without a journal the handler alone does.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        statuses: StatusReader,
        group: str,
        default_deadline_s: float,
        has_journal: bool,
    ) -> None:
        self._handlers = handlers
        self._statuses = statuses
        self._group = group
        self._default_deadline_s = default_deadline_s
        self._has_journal = has_journal

    def has(self, topic: str | None) -> bool:
        return topic in self._handlers

    def taken(self, wait: WaitRecord, *, worker_id: str, generation: int) -> WaitRecord:
        """Return the record that says that this worker has it from now on."""
        ours = wait._replace(holder=worker_id, generation=generation)
        return declared_by(ours, self._handlers[wait.record.topic])

    def may_run(self, before: WaitRecord) -> bool:
        """Whether a request may run again, or for the first time.

        Args:
            before: as its holder before had it.
        """
        if self._has_journal or before.holder == GIVEN_BACK:
            return True
        return may_run_again(self._handlers[before.record.topic], before)

    def received(self, wait: WaitRecord) -> Received:
        """Return the request as it was read first; a breach of the rules is refused again."""
        received = receive(
            wait.record,
            self._handlers[wait.record.topic],
            group=self._group,
            default_deadline_s=self._default_deadline_s,
            now_s=monotonic_s(),
            now_ms=epoch_ms(),
        )
        if isinstance(received, RefusedRecord):
            return received
        return received._replace(
            # A record written by hand may name it there alone.
            envelope=received.envelope._replace(request_id=wait.request_id),
            taken=wait.generation,
            deadline_at=wait.expires_at,
            begins_at=1 if self._has_journal else self._next_generation(wait),
        )

    def _next_generation(self, wait: WaitRecord) -> int:
        """Return a generation that its client takes for newer than those of the dead worker."""
        try:
            seen = self._statuses.read(wait.request_id).generation
        except RedisUnavailable:
            seen = 0
        return max(seen + 1, wait.generation)
