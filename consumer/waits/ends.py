"""The thread that says in the wait topics how requests have ended, and what is put right there.

A tombstone follows the final row of the journal: if the process dies before it, the next keeper
takes the request over, its claim is answered from the row, and the tombstone follows then. Without
a journal that outlives the worker it also follows the dead letter and the outcome's record.

Some ends leave no dead letter otherwise, and nobody waits for these requests: one that has expired,
and one of which nobody knows whether a dead worker has done it. They get theirs here, first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from consumer.dead_letters.dead_letters import KEEP
from consumer.dead_letters.evidence import Evidence
from consumer.dead_letters.making import NONE, STOP
from consumer.delivery import Delivery
from consumer.journal.dead_letters import Dead
from consumer.journal.records import WORKER_DIED, Row
from consumer.posting.posting import Posted
from consumer.posting.sending import Sending
from consumer.waits.record import GIVEN_BACK, Wait, encode, tombstone
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka_writer import KafkaWriter, Outgoing, RecordRefused
from feedback.logs import EventLog
from feedback.status import FINAL, State
from feedback.statuses import StatusWrite

log = EventLog("onceward.waits")

GATHER_S = 0.01
REMEMBERED = 10_000
DEAD_LETTERS, OUTCOMES = "dead-letters", "outcomes"
PAYLOAD_GONE = "PAYLOAD_GONE"
_DIED = "the worker died; whether the effect happened is not known"

Name = tuple[str, int]


class End(NamedTuple):
    """A request that has ended.

    Args:
        request_id: the key of its wait record.
        ended_as: the id that it ended under: that of its place, where it was refused.
        partition: of its wait record, where that is known.
        row: what its dead letter is made of, where one is to be written first.
    """

    request_id: str
    ended_as: str
    topic: str
    generation: int
    status: str
    partition: int | None = None
    row: Row | None = None


class Right(NamedTuple):
    """A wait record that takes the place of the one before; `partition` as for `End`."""

    wait: Wait
    partition: int | None


class Place(NamedTuple):
    """Where a wait record stands that was taken over: its key, and its partition."""

    request_id: str
    partition: int


class Letters(Protocol):
    """Writes dead letters."""

    def post(self, page: Sequence[Dead]) -> Iterator[Posted]: ...


class Ends:
    """Writes until stopped.

    Args:
        group: the workers' consumer group.
        worker_id: who says so.
        strategies: for each topic with `delivery="at_least_once"` what becomes of its failures.
        outcomes: those of them whose outcomes are passed on.
        outlives: whether the journal is there for others when this worker is not.
        writer: used by this thread alone.
        letters: writes dead letters, in this thread.
        evidence: what they are made of, where it is known here.
        tell: tells clients.
        close: closes what `letters` uses, in the thread.
    """

    def __init__(
        self,
        *,
        group: str,
        worker_id: str,
        strategies: Mapping[str, str],
        outcomes: Collection[str],
        outlives: bool,
        writer: KafkaWriter,
        letters: Letters,
        evidence: Evidence,
        tell: Callable[[Iterable[StatusWrite]], None],
        close: Callable[[], None],
    ) -> None:
        self._group = group
        self._worker_id = worker_id
        self._strategies = strategies
        self._outcomes = frozenset(outcomes)
        self._outlives = outlives
        self._writer = writer
        self._letters = letters
        self._evidence = evidence
        self._tell = tell
        self._close = close
        self._lock = threading.Lock()
        self._places: dict[str, Place] = {}
        self._kept: dict[Name, tuple[End, set[str]]] = {}
        self._closed: dict[tuple[str, Name], None] = {}
        self._is_away = False
        self._sending = Sending[End | Right](
            "wait-ends", write=self._write, close=self._end, gather_s=GATHER_S
        )

    def __len__(self) -> int:
        """How many wait to be said."""
        return len(self._sending) + len(self._kept)

    def start(self) -> None:
        """Begin to write."""
        self._sending.start()

    def stop(self) -> None:
        """Say what is to be said while Kafka answers, and end the thread."""
        self._sending.stop()

    # hearing -------------------------------------------------------------------------------

    def hear(self, writes: Iterable[StatusWrite]) -> None:
        """Hear what clients are told: what is final has ended. Any thread; returns at once."""
        for write in writes:
            if write.state in FINAL and write.topic in self._strategies:
                self._ended(self._end_of(write, write.topic), self._awaited(write, write.topic))

    def given_back(self, deliveries: Iterable[Delivery]) -> None:
        """Hear of requests that this worker does not run: whoever comes first may."""
        self._sending.send(
            Right(
                Wait(one.request_id, one.taken + 1, GIVEN_BACK, one.deadline_at, one.record),
                self._partition_of(one.request_id),
            )
            for one in deliveries
            if one.record.topic in self._strategies and not one.wakes
        )

    def closed(self, kind: str, names: Collection[Name]) -> None:
        """Hear that the dead letters or the outcomes of these runs are written. Any thread."""
        if self._outlives:
            return
        ready: list[End] = []
        with self._lock:
            for name in names:
                if name not in self._kept:
                    # It is told a moment later.
                    self._closed[kind, name] = None
                    continue
                end, awaited = self._kept[name]
                awaited.discard(kind)
                if not awaited:
                    ready.append(end)
                    del self._kept[name]
            while len(self._closed) > REMEMBERED:
                del self._closed[next(iter(self._closed))]
        self._sending.send(ready)

    def _ended(self, end: End, awaited: set[str]) -> None:
        name = (end.ended_as, end.generation)
        with self._lock:
            early = {one for one in awaited if (one, name) in self._closed}
            for one in early:
                del self._closed[one, name]
            awaited -= early
            if awaited:
                self._kept[name] = (end, awaited)
                return
        self._sending.send([end])

    def _end_of(self, write: StatusWrite, topic: str) -> End:
        is_buried = write.state is State.EXPIRED or (
            write.state is State.IN_DOUBT
            and (not self._outlives or write.fields.get("code") == WORKER_DIED)
        )
        # By this worker's own clock: for the letter alone.
        row = _row(write.placed, topic, self._worker_id) if is_buried else None
        place = self._places.get(write.request_id)
        return End(
            write.request_id if place is None else place.request_id,
            write.request_id,
            topic,
            write.generation,
            write.state,
            None if place is None else place.partition,
            row if self._strategies[topic] in (KEEP, STOP) else None,
        )

    def _partition_of(self, request_id: str) -> int | None:
        place = self._places.get(request_id)
        return None if place is None else place.partition

    def _awaited(self, write: StatusWrite, topic: str) -> set[str]:
        """Return what has to be written before a journal that ends with this worker is let go."""
        if self._outlives:
            return set()
        awaited = set()
        code, resend = write.fields.get("code"), write.fields.get("resend") == "1"
        is_dead = write.state is State.FAILED and not resend and code != PAYLOAD_GONE
        if is_dead and self._strategies[topic] != NONE:
            awaited.add(DEAD_LETTERS)
        if topic in self._outcomes and write.state is not State.IN_DOUBT:
            awaited.add(OUTCOMES)
        return awaited

    # what a keeper says --------------------------------------------------------------------

    def took(self, wait: Wait, partition: int, *, ends_as: str) -> None:
        """Hear that this worker goes on with a request, whose wait record stands there.

        Args:
            ends_as: the id that it ends under: a refused one has that of its place.
        """
        self._places[ends_as] = Place(wait.request_id, partition)

    def put_right(self, wait: Wait, partition: int) -> None:
        """Have this record take the place of the one before."""
        self._sending.send([Right(wait, partition)])

    def ended_before(self, wait: Wait, partition: int) -> None:
        """Have a record go again of a request that had ended before it was written."""
        name = wait.request_id
        ended = End(name, name, wait.record.topic, wait.generation, "", partition)
        self._sending.send([ended])

    def in_doubt(self, one: Delivery) -> None:
        """End a request whose worker died, and that must not run again: for a person."""
        self._evidence.failed((one.request_id, one.begins_at), one.record, None)
        # Whoever tells clients is heard by us.
        self._tell([_doubt(one, self._worker_id)])

    # writing -------------------------------------------------------------------------------

    def _write(self, batch: Sequence[End | Right]) -> list[End | Right]:
        """Return what is to be tried again."""
        left: list[End | Right] = [*self._unburied(batch)]
        ready = [one for one in batch if one not in left]
        away: KafkaUnavailable | None = None
        records = [self._record(one) for one in ready]
        for one, error in zip(ready, self._writer.write(records), strict=True):
            if isinstance(error, RecordRefused):
                log.error("wait.end_refused", request_id=_id(one), reason=str(error))
            elif error is not None:
                left.append(one)
                away = error
            if not error and isinstance(one, End):
                self._places.pop(one.ended_as, None)
        self._note(away)
        return left

    def _unburied(self, batch: Sequence[End | Right]) -> Iterator[End]:
        """Write the letters that come first; yield the ends whose letter is not written."""
        ends = {
            (one.ended_as, one.generation): one
            for one in batch
            if isinstance(one, End) and one.row is not None
        }
        if not ends:
            return
        dead = [Dead(one.row, None) for one in ends.values() if one.row is not None]
        for posted in self._letters.post(dead):
            for row in (*posted.written, *posted.gone):
                del ends[row.request_id, row.generation]
            for row in posted.gone:
                log.error("wait.payload_gone", request_id=row.request_id)
        yield from ends.values()

    def _record(self, one: End | Right) -> Outgoing:
        if isinstance(one, Right):
            return encode(one.wait, group=self._group, partition=one.partition)
        return tombstone(
            one.request_id,
            topic=one.topic,
            group=self._group,
            generation=one.generation,
            worker=self._worker_id,
            status=one.status,
            partition=one.partition,
        )

    def _note(self, error: KafkaUnavailable | None) -> None:
        if error is not None and not self._is_away:
            log.warning("waits.ends_not_written", reason=str(error))
        elif error is None and self._is_away:
            log.info("waits.ends_written_again")
        self._is_away = error is not None

    def _end(self) -> None:
        self._writer.close()
        self._close()


def _id(one: End | Right) -> str:
    return one.wait.request_id if isinstance(one, Right) else one.request_id


def _row(write: StatusWrite, topic: str, worker_id: str) -> Row:
    """Return what is told as a row: of what ended without one here, and for its letter."""
    now_ms, fields = epoch_ms(), write.fields
    return Row(
        request_id=write.request_id,
        topic=topic,
        partition=int(fields.get("partition", 0)),
        offset=int(fields.get("offset", 0)),
        message_key=None,
        payload_sha256=write.payload_sha256,
        attempt=write.attempt,
        generation=write.generation,
        effect_kind=None,
        effect_at=None,
        deadline_at=int(fields.get("deadline_at", 0)),
        state=write.state,
        owner=fields.get("worker") or worker_id,
        claimed_at=now_ms if write.state is State.IN_DOUBT else None,
        due_at=None,
        finished_at=now_ms,
        code=fields.get("code") or str(write.state),
        message=fields.get("message"),
        result=None,
        resend=False,
        by=None,
        published_at=None,
        dead_letter_at=None,
        voids=0,
    )


def _doubt(one: Delivery, worker_id: str) -> StatusWrite:
    record = one.record
    return StatusWrite(
        request_id=one.request_id,
        state=State.IN_DOUBT,
        attempt=one.envelope.attempt,
        generation=one.begins_at,
        payload_sha256=one.payload_sha256,
        fields={
            "worker": worker_id,
            "code": WORKER_DIED,
            "message": _DIED,
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "deadline_at": str(one.deadline_at),
        },
    )
