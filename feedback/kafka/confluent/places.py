"""The partitions that a member has, and how far it has handed out the records of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, TopicPartition

from feedback.kafka.confluent.faults import READ, fault_from, faults
from feedback.kafka.confluent.kept_messages import KeptMessages
from feedback.kafka.confluent.silent_partitions import Unread
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection

# More than librdkafka fetches ahead; what is left of it is fetched again.
_ALL = 10_000


class MemberPlaces:
    """Keeps librdkafka's positions where the records are that were handed out.

    Its position is behind every message that it gives, also of one that is dropped.

    Args:
        settings: the assignor.
        consumer: librdkafka's.

    Attributes:
        assigned: the partitions that are the member's now.
        paused: those of them that are paused.
    """

    def __init__(self, settings: KafkaSection, consumer: Any) -> None:
        self._settings = settings
        self._consumer = consumer
        self._is_cooperative = settings.assignor == "cooperative"
        self.assigned: set[Partition] = set()
        self.paused: set[Partition] = set()
        # Those that librdkafka holds for paused: it hears of it in the next poll.
        self._resting: set[Partition] = set()
        self._kept = KeptMessages()
        self._next: dict[Partition, int] = {}
        self._seeks: dict[Partition, int] = {}
        # Those that are to be assigned again: nobody knows where they were to begin.
        self._unbegun: set[Partition] = set()
        # Those that librdkafka has no more, as they could not be assigned again: it would refuse
        # to unassign them.
        self._unassigned: set[Partition] = set()

    def take(self, assigned: list[Any]) -> None:
        """Read these from now on."""
        new = {(one.topic, one.partition) for one in assigned}
        if self._is_cooperative:
            self._consumer.incremental_assign(assigned)
            self.assigned |= new
        else:
            self._consumer.assign(assigned)
            self.assigned = new
        # From their committed offsets.
        self._kept.drop(new)

    def drop(self, gone: list[Any]) -> None:
        """Read these no more, and forget them."""
        partitions = {(one.topic, one.partition) for one in gone}
        self.resume(partitions)
        # librdkafka keeps a pause beyond the assignment: nobody would end it when they come back.
        self._wake(self._resting & partitions)
        self._kept.drop(partitions)
        self.assigned -= partitions
        for one in partitions:
            self._next.pop(one, None)
            self._seeks.pop(one, None)
            self._unbegun.discard(one)
        if self._is_cooperative:
            there = self._still_there(gone)
            self._unassigned -= partitions
            # Also of none: librdkafka waits for this call.
            self._consumer.incremental_unassign(there)
        else:
            self._consumer.unassign()

    def assign_again(self, unread: Collection[Partition]) -> bool:
        """Assign these again, and those that could not begin; return whether there were any."""
        begun_anew = (self._unbegun - self.paused).union(unread, self._unassigned)
        if not begun_anew:
            return False
        wanted: Collection[Partition] = begun_anew if self._is_cooperative else self.assigned
        again = [TopicPartition(*one, self._next.get(one, OFFSET_STORED)) for one in wanted]
        with faults(self._settings, operation=READ):
            if self._is_cooperative:
                self._consumer.incremental_unassign(self._still_there(again))
                self._unassigned = begun_anew
                self._consumer.incremental_assign(again)
                self._unassigned = set()
            else:
                self._consumer.assign(again)
            self._kept.drop(wanted)
            self._consumer.pause([TopicPartition(*one) for one in self._resting])
        # Not before: until then nothing of them is handed out. Those that are paused begin anew
        # behind their pause, also where all are assigned again: see `seek_again`.
        self._unbegun -= {*wanted} - self.paused
        return True

    def _still_there(self, places: Collection[Any]) -> list[Any]:
        return [one for one in places if (one.topic, one.partition) not in self._unassigned]

    @property
    def has_kept(self) -> bool:
        """Whether there are messages for the next poll."""
        return any(one not in self.paused for one in self._kept.partitions)

    def keep(self, messages: Collection[Any]) -> None:
        """Keep messages that librdkafka has given, but for those that are not to be handed out."""
        self._kept.keep(
            one
            for one in messages
            if _is_error(one) or self.may_hand_out((one.topic(), one.partition()))
        )

    def take_kept(self, most: int) -> list[Any]:
        """Return the first messages that were kept, of partitions that are not paused."""
        return self._kept.take(most, but_of=self.paused)

    def may_hand_out(self, place: Partition) -> bool:
        """Say whether a message that was fetched is handed out, now or later, or is dropped."""
        # A rebalance or a seek may have come after it was fetched.
        return place in self.assigned and not self._is_to_go_back(place)

    def note_read(self, place: Partition, position: int) -> None:
        """Note the next offset to read, unless that is another one by now."""
        if place in self.assigned and not self._is_to_go_back(place):
            self._next[place] = position

    def go_back_to(self, place: Partition, offset: int) -> None:
        """Read a partition again from here; till then drop what comes of it."""
        self._kept.drop({place})
        self._seeks[place] = self._next[place] = offset

    def go_back(self, places: Collection[Partition]) -> None:
        """Read these again from the last record that was handed out; till then drop the others."""
        self._kept.drop(places)
        for one in places:
            if one not in self._next:
                self._unbegun.add(one)
            elif one not in self._seeks:
                self._seeks[one] = self._next[one]

    def unread(self, fetched: Mapping[Partition, Unread]) -> dict[Partition, Unread]:
        """Return the partitions that have more than was handed out.

        Args:
            fetched: from where partitions are fetched, and their ends.
        """
        found = {}
        for one in self.assigned.intersection(fetched):
            offset = self._next.get(one, fetched[one].offset)
            if 0 <= offset < fetched[one].end:
                found[one] = fetched[one]._replace(offset=offset)
        return found

    def _is_to_go_back(self, place: Partition) -> bool:
        return place in self._seeks or place in self._unbegun

    def pause(self, partitions: Collection[Partition]) -> None:
        """Hand out nothing of those that are assigned, from the next poll on."""
        self.paused |= self.assigned.intersection(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Hand out those again that are paused."""
        self.paused -= {*partitions}

    def rest(self) -> None:
        """Let librdkafka know which partitions are paused; keep what it has fetched of them."""
        if not self.paused <= self._resting and self._kept.has_room:
            self.keep(self._consumer.consume(_ALL, 0))
        # After that call: partitions may have come and gone within.
        new = self.paused - self._resting
        if new:
            self._consumer.pause([TopicPartition(*one) for one in new])
            self._resting |= new
        # Of those of which messages are kept nothing is fetched: it would be kept as well.
        self._wake((self._resting - self.paused).difference(self._kept.partitions))

    def _wake(self, partitions: Collection[Partition]) -> None:
        if partitions:
            self._consumer.resume([TopicPartition(*one) for one in partitions])
            self._resting -= {*partitions}

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets, where the partitions are assigned.

        The next poll seeks, behind its word on partitions that failed: one of them is paused first.
        """
        for one in self.assigned.intersection(offsets):
            self.go_back_to(one, offsets[one])

    def seek_again(self) -> None:
        """Seek where that was not possible yet: a partition that is new is not being read.

        One that is paused is sought when it is read again: behind a corrupt batch librdkafka goes
        to the log's beginning when a broker answers, also where it was sought before that.
        """
        for one, offset in list(self._seeks.items()):
            if one in self.paused:
                continue
            try:
                self._consumer.seek(TopicPartition(*one, offset))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    raise fault_from(error.args[0], self._settings) from error
            else:
                del self._seeks[one]

    def position(self, partition: Partition) -> int:
        """Return the next offset to read; -1 where that is not known."""
        return self._next.get(partition, -1)

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        if partition not in self.assigned or partition not in self._next:
            return False
        with suppress(KafkaException):
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            return bool(0 <= end <= self._next[partition])
        return False


def _is_error(message: Any) -> bool:
    error = message.error()
    return error is not None and error.code() != KafkaError._PARTITION_EOF
