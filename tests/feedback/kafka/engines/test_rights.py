"""Topics and groups that a user may not use: named, while all others go on."""

from __future__ import annotations

import pytest
from kafka.admin import ACLOperation, ResourceType

from feedback.errors import SecurityKind
from feedback.kafka import administrator
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import GroupRefused, KafkaFault, PartitionsFailed, TopicRefused
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.partition_reader import ReadingPlan
from feedback.kafka.reader import ReadForbidden, RecordReader
from feedback.kafka.writer import KafkaWriter
from tests.eventually import eventually
from tests.feedback.kafka.engines.guarded import VALUES, GuardedGround
from tests.feedback.kafka.engines.members import LIMIT_S, Told
from tests.rounds import in_time

pytestmark = pytest.mark.waits

# The sentence of a fault is told within this time, whatever the library.
SAID_WITHIN_S = 5.0


def test_a_forbidden_topic_is_named_and_its_neighbour_is_read(
    guarded: GuardedGround,
) -> None:
    settings = guarded.settings()
    guarded.allow(ResourceType.GROUP, settings.group, ACLOperation.READ)
    ours = guarded.topic(ACLOperation.READ, ACLOperation.DESCRIBE)
    closed = guarded.topic(ACLOperation.DESCRIBE)
    told = Told(settings, ours, closed)
    read: list[bytes | None] = []
    failed: list[PartitionsFailed] = []

    def is_done() -> bool:
        try:
            read.extend(one.value for one in told.poll())
        except PartitionsFailed as error:
            failed.append(error)
            told.member.pause(error.partitions)
        return bool(failed) and len(read) == len(VALUES)

    eventually(is_done, timeout_s=LIMIT_S)
    assert failed[0].partitions == {(closed, 0)}
    assert failed[0].fault is not None and failed[0].fault.kind is SecurityKind.RIGHT
    assert "with Read" in failed[0].fault.said and closed in failed[0].fault.said
    # It was allowed: what was left out is there.
    guarded.allow(ResourceType.TOPIC, closed, ACLOperation.READ)

    def is_all() -> bool:
        told.member.resume([(closed, 0)])
        is_done()
        return len(read) == 2 * len(VALUES)

    eventually(is_all, timeout_s=LIMIT_S)
    told.close()


def test_a_forbidden_group_is_named(guarded: GuardedGround) -> None:
    settings = guarded.settings()
    told = Told(settings, guarded.topic(ACLOperation.READ))

    def fault() -> KafkaFault | None:
        try:
            told.poll()
        except KafkaFault as error:
            return error
        return None

    found = eventually(fault, timeout_s=SAID_WITHIN_S)
    assert isinstance(found, GroupRefused)
    assert found.fault is not None and found.fault.kind is SecurityKind.RIGHT
    assert settings.group in found.fault.said
    told.close()


def test_a_record_of_a_topic_that_may_not_be_seen_is_forbidden_and_not_gone(
    guarded: GuardedGround,
) -> None:
    hidden = guarded.topic()
    with RecordReader(guarded.settings()) as reader:

        def read() -> ReadForbidden:
            with pytest.raises(ReadForbidden) as caught:
                reader.read(hidden, 0, 0, timeout_s=LIMIT_S)
            return caught.value

        assert hidden in str(in_time(read, limit_s=SAID_WITHIN_S))


def test_a_reader_needs_no_right_to_a_group_and_names_a_forbidden_topic(
    guarded: GuardedGround,
) -> None:
    settings = guarded.settings()
    ours = guarded.topic(ACLOperation.READ)
    closed = guarded.topic(ACLOperation.DESCRIBE)
    reader = engine_of(settings).reader(settings, ReadingPlan(65_536, 65_536, connect_s=LIMIT_S))
    reader.assign({(ours, 0): 0})
    found: list[bytes | None] = []

    def is_read() -> bool:
        found.extend(one.value for one in reader.poll(0.1, max_records=9))
        return len(found) == len(VALUES)

    eventually(is_read, timeout_s=LIMIT_S)
    reader.assign({(closed, 0): 0})
    with pytest.raises(TopicRefused) as caught:
        eventually(lambda: reader.poll(0.1, max_records=9), timeout_s=LIMIT_S)
    fault = caught.value.fault
    assert fault is not None and fault.kind is SecurityKind.RIGHT
    reader.close()


def test_rights_are_described_and_each_refusal_is_named(guarded: GuardedGround) -> None:
    settings = guarded.settings()
    ours, hidden = guarded.topic(ACLOperation.READ), guarded.topic()
    admin = engine_of(settings).administrator(settings, LIMIT_S)
    found = admin.describe([ours, hidden])
    described, refused = found[ours], found[hidden]
    assert not isinstance(described, KafkaFault) and described.rights == {"READ", "DESCRIBE"}
    assert isinstance(refused, TopicRefused)
    assert refused.fault is not None and refused.fault.kind is SecurityKind.RIGHT
    assert {ours, hidden} & admin.topics() == {ours}
    # What it may not read is absent, and no fault.
    assert not admin.configs([ours], ["cleanup.policy"]).get(ours)
    (unmade,) = admin.make({f"{ours}-2": administrator.NewTopic(1, 1)}).values()
    assert unmade.fault is not None and unmade.fault.kind is SecurityKind.RIGHT
    with pytest.raises(TopicRefused):
        admin.delete_topics([ours])
    with pytest.raises(GroupRefused):
        admin.group_offsets({settings.group: [(ours, 0)]})
    with pytest.raises(GroupRefused):
        admin.remove_member(settings.group, "any")
    assert settings.group not in admin.groups()
    admin.close()


def test_a_topic_that_may_not_be_written_is_named_and_its_neighbour_is_written(
    guarded: GuardedGround,
) -> None:
    ours = guarded.topic(ACLOperation.WRITE, ACLOperation.DESCRIBE)
    closed = guarded.topic(ACLOperation.DESCRIBE)
    writer = KafkaWriter(guarded.settings())
    said = writer.write([Outgoing(one, 0, None, b"v", ()) for one in (closed, ours)])
    assert isinstance(said[0], NotAcknowledged) and said[1] is None
    assert said[0].fault is not None and said[0].fault.kind is SecurityKind.RIGHT
    assert "with Write" in said[0].fault.said
    writer.close()
