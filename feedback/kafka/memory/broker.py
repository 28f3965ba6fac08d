"""A broker in memory: topics, groups and rights, and what a test does to them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from feedback.clock import epoch_ms
from feedback.kafka.errors import KafkaFault, TopicExists
from feedback.kafka.memory.faults import absent, group_refused, said, topic_refused
from feedback.kafka.memory.group import MemoryGroup
from feedback.kafka.memory.log import MemoryLog
from feedback.kafka.memory.presence import BrokerPresence
from feedback.kafka.memory.rights import GuardedKind, MemoryRights
from feedback.kafka.memory.topic import MemoryTopic
from feedback.kafka.memory.transaction import MemoryTransaction, TransactionState
from feedback.kafka.record_limits import is_legal
from feedback.kafka.values import Partition
from feedback.records.envelope import Record

# Of a record that is not stored yet.
NOWHERE = -1
# Of a topic whose maker does not say more.
_PARTITIONS = 1


class MemoryBroker(BrokerPresence):
    """A broker in memory; `memory_broker` opens one. Safe to share between threads.

    Args:
        brokers: so many copies a topic may have.
        allows_all: whether its user may do anything with a thing that no right names.
        longest_wait_s: see `BrokerPresence`.

    Attributes:
        address: the value of `[kafka] bootstrap_servers` that leads here.
        rights: of its one user.
        topics: by name.
        epochs: of each transactional id that was taken.
    """

    def __init__(
        self, *, brokers: int = 1, allows_all: bool = True, longest_wait_s: float = 0.1
    ) -> None:
        # No real name ends so (RFC 2606): outside of its block it leads nowhere.
        super().__init__(f"{uuid.uuid4().hex}.invalid:9092", longest_wait_s=longest_wait_s)
        self.brokers = brokers
        self.cluster_id = uuid.uuid4().hex
        self.rights = MemoryRights(allows_all=allows_all)
        self.topics: dict[str, MemoryTopic] = {}
        self.epochs: Counter[str] = Counter()
        self._groups: dict[str, MemoryGroup] = {}

    # what a test does --------------------------------------------------------------------------

    def make_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic."""
        with self.changed:
            self.create(name, partitions=partitions, replicas=1, configs=configs or {})
            self.changed.notify_all()

    def delete_topic(self, name: str) -> None:
        """Delete a topic, with its committed offsets."""
        with self.changed:
            self.drop(name)
            self.changed.notify_all()

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Iterable[tuple[str | bytes, bytes]] = (),
        timestamp_ms: int | None = None,
        transaction: MemoryTransaction | None = None,
    ) -> Record:
        """Write a record as a foreign program does, also while the broker is away.

        Args:
            headers: names that are no text are bytes, and read as other libraries read them.

        Raises:
            KafkaUnavailable: the topic never takes it, or is not there.
        """
        named = (
            (name if isinstance(name, str) else name.decode("utf-8", "replace"), given)
            for name, given in headers
        )
        at_ms = epoch_ms() if timestamp_ms is None else timestamp_ms
        record = Record(topic, partition, NOWHERE, at_ms, key, value, tuple(named))
        with self.changed:
            stored = self.store(record, transaction)
            self.changed.notify_all()
        return stored

    def delete_records(self, partition: Partition, before: int) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        with self.changed:
            self.log(partition).delete_before(before)
            self.changed.notify_all()

    def remove(self, partition: Partition, offset: int) -> None:
        """Remove one record, as compaction does; its offset stays."""
        with self.changed:
            self.log(partition).remove(offset)
            self.changed.notify_all()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Yield a transaction, which is committed after the block, and aborted where that fails."""
        made = MemoryTransaction()
        state = TransactionState.ABORTED
        try:
            yield made
            state = TransactionState.COMMITTED
        finally:
            self.end_transaction(made, state)

    def end_transaction(self, transaction: MemoryTransaction, state: TransactionState) -> None:
        """End a transaction, once."""
        with self.changed:
            if transaction.state is TransactionState.OPEN:
                transaction.end(state)
            self.changed.notify_all()

    def records(self, topic: str) -> list[Record]:
        """Return the committed records of a topic, by partition and offset."""
        with self.changed:
            return [
                record
                for log in self.known(topic).logs
                for record in log.read(log.begin, most=log.end, committed_only=True)[0]
            ]

    def limit(self, kind: GuardedKind, name: str, *operations: str) -> None:
        """Let the user do this alone with a thing, as `READ`; nothing where none is named."""
        with self.changed:
            self.rights.limit(kind, name, *operations)
            self.changed.notify_all()

    def allow(self, kind: GuardedKind, name: str, *operations: str) -> None:
        """Let the user do this too with a thing."""
        with self.changed:
            self.rights.allow(kind, name, *operations)
            self.changed.notify_all()

    def free(self, kind: GuardedKind, name: str) -> None:
        """Let the user do with a thing as with any that no right names."""
        with self.changed:
            self.rights.free(kind, name)
            self.changed.notify_all()

    def expel(self, group: str) -> None:
        """Remove the members of a group, as after a long silence; each joins at its next poll."""
        with self.changed:
            self.group(group).expel_all()
            self.changed.notify_all()

    def rewind(self, group: str, partition: Partition, offset: int) -> None:
        """Let a group read again from an offset, as where its later commits were lost."""
        with self.changed:
            found = self.group(group)
            found.offsets[partition] = offset
            found.expel_all()
            self.changed.notify_all()

    # what its clients ask for, with the lock ---------------------------------------------------

    def known(self, name: str, operation: str = "") -> MemoryTopic:
        """Return a topic with which the user may do that.

        Args:
            operation: as `Read`; empty: any user may.

        Raises:
            TopicRefused: the user may not, and may not learn whether it exists.
            TopicAbsent: there is none.
        """
        for wanted in ("Describe", operation) if operation else ():
            if not self.rights.may(wanted.upper(), GuardedKind.TOPIC, name):
                raise topic_refused(self.address, name, operation)
        if name not in self.topics:
            raise absent(self.address, name)
        return self.topics[name]

    def log(self, partition: Partition, operation: str = "") -> MemoryLog:
        """Return the log of a partition; see `known`."""
        logs = self.known(partition[0], operation).logs
        if not 0 <= partition[1] < len(logs):
            raise absent(self.address, f"{partition[0]}-{partition[1]}")
        return logs[partition[1]]

    def create(
        self,
        name: str,
        *,
        partitions: int | None,
        replicas: int | None,
        configs: Mapping[str, str],
        only_rehearse: bool = False,
    ) -> None:
        """Make a topic.

        Raises:
            KafkaFault: it cannot be made.
        """
        if not is_legal(name):
            raise said(KafkaFault, self.address, f"InvalidTopicError {name}")
        if name in self.topics:
            raise said(TopicExists, self.address, f"TopicAlreadyExistsError {name}")
        count = _PARTITIONS if partitions is None else partitions
        copies = 1 if replicas is None else replicas
        if count < 1:
            raise said(KafkaFault, self.address, f"InvalidPartitionsError {count}")
        if not 1 <= copies <= self.brokers:
            raise said(KafkaFault, self.address, f"InvalidReplicationFactorError {copies}")
        if not only_rehearse:
            self.topics[name] = MemoryTopic(name, partitions=count, replicas=copies, given=configs)

    def drop(self, name: str) -> None:
        """Delete a topic, with its committed offsets.

        Raises:
            TopicAbsent: there is none.
        """
        self.known(name)
        del self.topics[name]
        for group in self._groups.values():
            group.forget(name)

    def store(self, record: Record, transaction: MemoryTransaction | None = None) -> Record:
        """Write a record; return it with its offset.

        Raises:
            KafkaUnavailable: the topic never takes it, or is not there.
        """
        self.log((record.topic, record.partition))
        return self.topics[record.topic].append(record, transaction)

    def counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partitions of those topics that exist and that the user may see."""
        return {
            name: len(self.topics[name].logs)
            for name in topics
            if name in self.topics and self.rights.may("DESCRIBE", GuardedKind.TOPIC, name)
        }

    def group(self, name: str, operation: str = "") -> MemoryGroup:
        """Return a group, made where it is new.

        Args:
            operation: as `Read`; empty: any user may.

        Raises:
            GroupRefused: the user may not do that with it.
        """
        if operation and not self.rights.may(operation.upper(), GuardedKind.GROUP, name):
            raise group_refused(self.address, name)
        if name not in self._groups:
            self._groups[name] = MemoryGroup(self.address, self.counts)
        return self._groups[name]

    def groups(self) -> dict[str, MemoryGroup]:
        """Return the groups that have members or offsets."""
        return {name: one for name, one in self._groups.items() if one.has_members or one.offsets}

    def forget_group(self, name: str) -> None:
        """Delete a group."""
        self._groups.pop(name, None)
