"""Reads records as a member of a consumer group, and commits their offsets.

What an engine's member cannot say by itself is here: that Kafka is away, that single partitions are
refused while the others go on, and which topics have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault, PartitionsFailed
from feedback.kafka.member import PartitionOwner
from feedback.kafka.partition_quarantine import PartitionQuarantine
from feedback.kafka.values import Partition, ReadOn
from feedback.logs import EventLog
from feedback.observer import Observer, observed
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.kafka")

# Finding the group's coordinator takes a fraction of a second where a broker answers.
COORDINATOR_LIMIT_S = 3.0
READ_ON_EVERY_S = 1.0


Unclaimed = Callable[[Collection[Partition]], Mapping[Partition, int]]


def nothing_unclaimed(partitions: Collection[Partition]) -> Mapping[Partition, int]:
    """Let the next owner go on from the committed offset."""
    return {}


class CommitFailed(KafkaUnavailable):
    """A commit was refused, or its outcome is unknown: read the committed offset."""


class KafkaSource:
    """Reads topics as a member of a group. Belongs to one thread.

    Args:
        settings: brokers, group and security.
        topics: the topics to subscribe to.
        observers: receive polls and commits.

    Attributes:
        is_away: no broker answered at the last poll.
        is_joined: the group was stable with this member in it at the last poll.
        owned: the partitions that this member had then; a new set each time.
        spacing_s: see `Engine`.
        read_on: how far they were read when a poll last found nothing; a new mapping each time.
        unclaimed: called with partitions that are taken away, in the thread of the library: with
            confluent-kafka that is the one that polls. Returns the offsets from which the next
            owner has to read them again.
    """

    def __init__(
        self, settings: KafkaSection, topics: Sequence[str], observers: Sequence[Observer] = ()
    ) -> None:
        self._observers = observers
        self.is_joined = False
        self.owned: frozenset[Partition] = frozenset()
        self.read_on: Mapping[Partition, ReadOn] = {}
        self._read_on_s = float("-inf")
        self._after: dict[Partition, int] = {}
        self._settings = settings
        self._is_paused = False
        self._left: frozenset[str] = frozenset()
        self._topics = frozenset(topics)
        self._is_member = False
        self._gone: set[str] = set()
        self._partitions: dict[str, int] = {}
        self._aside = PartitionQuarantine()
        self._refusals: tuple[str, ...] = ()
        self._refused: dict[str, str] = {}
        self._revoked: set[Partition] = set()
        self._committed: dict[Partition, int] = {}
        self.is_away = False
        self.unclaimed: Unclaimed = nothing_unclaimed
        self._coordinated_s = monotonic_s()
        owner = PartitionOwner(self._stay_paused, self._give_up, self._given_up)
        engine = engine_of(settings)
        self.spacing_s = engine.spacing_s
        self._member = engine.member(settings, topics, owner)

    def missing(self, topics: Sequence[str]) -> list[str]:
        """Return those of the topics that do not exist.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        known = self._member.topics()
        return [topic for topic in topics if topic not in known]

    def broker_version(self) -> str:
        """Return the newest protocol the broker and the client both speak."""
        return self._member.broker_version()

    @property
    def refusals(self) -> tuple[str, ...]:
        """The faults of security that last, in sentences; for any thread."""
        return self._refusals

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records, in offset order within each partition.

        Faults of single partitions are logged, and the others are read.

        Raises:
            KafkaUnavailable: the broker refused; polling again is right.
        """
        for one in self._observers:
            one.begins("poll")
        try:
            return self._poll(timeout_s, max_records)
        finally:
            self.is_joined = not self.is_away and self._member.is_stable()
            self.owned = self._member.assigned()
            self._refusals = tuple(sorted({*self._aside.refusals, *self._refused.values()}))

    def _poll(self, timeout_s: float, max_records: int) -> list[Record]:
        self._try_again()
        try:
            records = self._member.poll(timeout_s, max_records=max_records)
        except PartitionsFailed as error:
            self._aside.keep(self._member.assigned())
            self._aside.fail(error.partitions, error, now_s=monotonic_s())
            self._member.pause(error.partitions)
            return []
        except KafkaFault as error:
            self.is_away = True
            self._note("poll", error)
            raise
        self._refused.pop("poll", None)
        self._require_coordinator(bool(records))
        after = {(one.topic, one.partition): one.offset + 1 for one in records}
        self._after |= after
        self._aside.note_polled(after, now_s=monotonic_s())
        self._note_gone()
        if not records:
            self._note_read_on()
        return records

    def _note_read_on(self) -> None:
        now_s = monotonic_s()
        if now_s - self._read_on_s < READ_ON_EVERY_S:
            return
        self._read_on_s = now_s
        found: dict[Partition, ReadOn] = {}
        with suppress(KafkaFault):  # which the polls report
            for one in self._member.assigned():
                found[one] = ReadOn(self._after.get(one), self._member.position(one))
        self.read_on = found

    def _require_coordinator(self, has_records: bool) -> None:
        """Raise when no broker is there: a poll does not report that, it only finds no records."""
        if has_records or self._member.is_coordinated():
            self._coordinated_s = monotonic_s()
            self.is_away = False
        elif self.is_away or monotonic_s() - self._coordinated_s > COORDINATOR_LIMIT_S:
            self.is_away = True
            why = self._member.why_away(since_s=self._coordinated_s)
            detail = f": {why.reason}" if why.reason else ""
            raise KafkaUnavailable(
                f"Kafka at {self._settings.bootstrap_servers}: no broker coordinates the "
                f"group{detail}"
            ).because(why.fault)

    def _try_again(self) -> None:
        if (due := self._aside.due(monotonic_s())) and not self._is_paused:
            self._member.resume([one for one in due if one[0] not in self._left])

    def _note_gone(self) -> None:
        """Log topics that were deleted, are there again, or have grown; by the current metadata."""
        self._is_member = self._is_member or bool(self._member.assigned())
        if not self._is_member:
            return  # and has no topics yet
        known = self._member.partition_counts(self._topics)
        gone = {topic for topic, partitions in known.items() if not partitions}
        for topic, partitions in known.items():
            if 0 < self._partitions.get(topic, partitions) < partitions:
                log.warning("topic.grew", topic=topic, partitions=partitions)
        for topic in gone - self._gone:
            log.error("topic.gone", topic=topic)
        for topic in self._gone - gone:
            log.info("topic.back", topic=topic)
        self._gone = gone
        self._partitions = known

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition, and return when it is applied.

        Raises:
            CommitFailed: it was refused or its outcome is unknown.
        """
        with observed(self._observers, "commit"):
            try:
                self._member.commit(offsets)
            except KafkaFault as error:
                self._note("commit", error)
                raise CommitFailed(str(error)).because(error.fault) from error
        self._refused.pop("commit", None)
        self._committed |= offsets

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition; 0 where there is none.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        return self._member.committed(partitions)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read these partitions again from these offsets, if they are still ours."""
        self._after |= offsets
        self._member.seek(offsets)

    def pause(self) -> None:
        """Stop fetching, and stay a member of the group."""
        self._is_paused = True
        self._member.pause(self._member.assigned())

    def resume(self) -> None:
        """Fetch again, but for partitions that are left out."""
        self._is_paused = False
        self._member.resume(
            [
                one
                for one in self._member.paused()
                if one not in self._aside.out and one[0] not in self._left
            ]
        )

    def leave(self, topics: frozenset[str]) -> None:
        """Fetch nothing of these topics from now on, even after `resume`; stay in the group.

        Topics that are not named again are fetched from the next `resume` on.
        """
        if topics == self._left:
            return
        self._left = topics
        self._member.pause([one for one in self._member.assigned() if one[0] in topics])

    def hold(self, partitions: Collection[Partition]) -> None:
        """Stop fetching these partitions and fetch all others, but for those that are left out."""
        paused, held = self._member.paused(), self._member.assigned().intersection(partitions)
        self._member.pause(held - paused)
        self._member.resume(paused - held - {*self._aside.out})

    def take_revoked(self) -> set[Partition]:
        """Return the partitions that were taken away since the last call, back by now or not."""
        revoked: set[Partition] = set()
        while self._revoked:
            revoked.add(self._revoked.pop())
        return revoked

    def assigned(self) -> list[Partition]:
        """Return the partitions that are ours now."""
        return sorted(self._member.assigned())

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end, by the last answer of its leader.

        Raises:
            KafkaUnavailable: the broker refused.
        """
        return self._member.is_read(partition)

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it, as of the last poll."""
        # With all brokers gone the member's state stays "stable".
        return not self.is_away and self._member.is_stable()

    def position(self, partition: Partition) -> int:
        """Return the next offset to read.

        It is behind records that compaction removed, and behind offsets without a record; -1 where
        it is not known, or the partition is not ours.

        Raises:
            KafkaUnavailable: the broker refused.
        """
        return self._member.position(partition)

    def close(self) -> None:
        """Leave the group, so that the others take over at once.

        Raises:
            KafkaUnavailable: the group could not be reached.
        """
        self._member.close()

    def _note(self, call: str, error: KafkaFault) -> None:
        if error.fault is not None:
            self._refused[call] = str(error)

    def _give_up(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        self._revoked.update(revoked)
        return self.unclaimed(revoked)

    def _given_up(self, offsets: Mapping[Partition, int], refused: str) -> None:
        if refused:
            # They were lost, not handed over: the next owner goes on from the committed offset.
            log.warning("partitions.lost", reason=refused, not_rewound=len(offsets))
            return
        records = sum(max(0, self._committed.get(one, 0) - offsets[one]) for one in offsets)
        log.info("partitions.handed_over", partitions=len(offsets), read_again=records)

    def _stay_paused(self, assigned: Collection[Partition]) -> Collection[Partition]:
        return [one for one in assigned if self._is_paused or one[0] in self._left]
