"""A broker that refuses a connection, whatever library that stands on: which fault, and when."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType

from feedback.errors import KafkaUnavailable, SecurityFault, SecurityKind
from feedback.kafka import administrator
from feedback.kafka.confluent import member
from feedback.kafka.confluent.member import ConfluentMember
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import GroupRefused, KafkaFault, PartitionsFailed, TopicRefused
from feedback.kafka.member import ANSWER_S
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.partition_reader import ReadingPlan
from feedback.kafka.reader import ReadForbidden, RecordReader
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import LIMIT_S, Told, write
from tests.rounds import in_time
from tests.stack.authority import Authority
from tests.stack.secured import SecuredKafka
from tests.stack.secured_stack import Secured
from tests.stack.tls_front import self_signed, tls_front

pytestmark = pytest.mark.waits

USER, PASSWORD = "member", "right"
# The sentence of a fault is told within this time, whatever the library.
SAID_WITHIN_S = 5.0
VALUES = [b"1", b"2", b"3"]


@pytest.fixture(scope="module")
def broker(secured: Secured) -> SecuredKafka:
    """Return the secured broker, which has a user of these tests."""
    secured.kafka.set_password(USER, PASSWORD)
    return secured.kafka


def _settings(broker: SecuredKafka, engine: str, **changed: object) -> KafkaSection:
    given: dict[str, object] = {
        "client": engine,
        "group": f"group-{uuid.uuid4().hex}",
        "bootstrap_servers": broker.address,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.cafile),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    return KafkaSection.model_validate(given | changed)


def _refused(settings: KafkaSection) -> SecurityFault:
    """Return the fault with which a member cannot be made."""

    def make() -> KafkaUnavailable:
        with pytest.raises(KafkaUnavailable) as caught:
            Told(settings, "t")
        return caught.value

    found = in_time(make, limit_s=SAID_WITHIN_S).fault
    assert found is not None
    return found


def test_a_wrong_password(broker: SecuredKafka, engine: str) -> None:
    found = _refused(_settings(broker, engine, sasl_plain_password="wrong"))
    assert found.kind is SecurityKind.PASSWORD
    assert "wrong" not in found.said


def test_a_certificate_of_an_authority_that_is_not_trusted(
    broker: SecuredKafka, engine: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    found = _refused(_settings(broker, engine, ssl_cafile=str(other.cafile)))
    assert found.kind is SecurityKind.UNTRUSTED


@pytest.mark.parametrize(
    ("host", "days", "kind"),
    [(HOST, -1, SecurityKind.EXPIRED), ("192.0.2.1", 2, SecurityKind.HOST_NAME)],
)
def test_a_certificate_that_has_expired_or_is_for_another_name(
    broker: SecuredKafka, engine: str, tmp_path: Path, host: str, days: int, kind: SecurityKind
) -> None:
    certificate = self_signed(tmp_path, "odd", host=host, days=days)
    with tls_front(certificate) as port:
        at = {"bootstrap_servers": f"{HOST}:{port}", "ssl_cafile": str(certificate.cert)}
        assert _refused(_settings(broker, engine, **at)).kind is kind


def test_a_file_that_is_not_there_is_named(broker: SecuredKafka, engine: str) -> None:
    found = _refused(_settings(broker, engine, ssl_cafile="/no/such/ca.pem"))
    assert found.kind is SecurityKind.FILE
    assert "[kafka] ssl_cafile = /no/such/ca.pem (No such file or directory)" in found.said


def test_tls_where_the_broker_has_none_and_none_where_it_has(
    broker: SecuredKafka, engine: str
) -> None:
    without = _settings(broker, engine, security_protocol="SASL_PLAINTEXT")
    assert _refused(without).kind is SecurityKind.NEEDS_TLS
    plain = {"bootstrap_servers": broker.plain, "security_protocol": "SSL"}
    unneeded = KafkaSection.model_validate(
        {**plain, "client": engine, "ssl_cafile": str(broker.cafile)}
    )
    assert _refused(unneeded).kind is SecurityKind.NO_TLS


def _topic(broker: SecuredKafka, *operations: ACLOperation) -> str:
    """Make a topic with records, and give the user rights to it."""
    name = f"topic-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.wait_for_topics([name])
    write(broker.plain, name, VALUES)
    if operations:
        broker.allow(USER, ResourceType.TOPIC, name, *operations)
    return name


def test_a_forbidden_topic_is_named_and_its_neighbour_is_read(
    broker: SecuredKafka, engine: str
) -> None:
    settings = _settings(broker, engine)
    broker.allow(USER, ResourceType.GROUP, settings.group, ACLOperation.READ)
    ours = _topic(broker, ACLOperation.READ, ACLOperation.DESCRIBE)
    closed = _topic(broker, ACLOperation.DESCRIBE)
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
    broker.allow(USER, ResourceType.TOPIC, closed, ACLOperation.READ)

    def is_all() -> bool:
        told.member.resume([(closed, 0)])
        is_done()
        return len(read) == 2 * len(VALUES)

    eventually(is_all, timeout_s=LIMIT_S)
    told.close()


def test_a_forbidden_group_is_named(broker: SecuredKafka, engine: str) -> None:
    settings = _settings(broker, engine)
    told = Told(settings, _topic(broker, ACLOperation.READ))

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


@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_partitions_whose_offset_was_refused_are_read_when_it_is_granted(
    broker: SecuredKafka, monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    """librdkafka asks once, as partitions come, and would never read them then."""
    settings = _settings(broker, "confluent", assignor=assignor)
    name = _topic(broker, ACLOperation.READ)
    right = (USER, ResourceType.GROUP, settings.group, ACLOperation.READ)
    broker.allow(*right)
    monkeypatch.setattr(member, "UNREAD_S", 1.0)
    assigned = ConfluentMember._hear_assigned

    def refused(self: ConfluentMember, consumer: object, partitions: list[object]) -> None:
        broker.take_away(USER, ResourceType.GROUP, settings.group)
        assigned(self, consumer, partitions)

    monkeypatch.setattr(ConfluentMember, "_hear_assigned", refused)
    told = Told(settings, name)
    with pytest.raises(GroupRefused):
        eventually(told.poll, timeout_s=LIMIT_S)
    assert told.member.assigned() == {(name, 0)}
    broker.allow(*right)
    assert [one.value for one in told.read(len(VALUES))] == VALUES
    told.close()


def test_a_record_of_a_topic_that_may_not_be_seen_is_forbidden_and_not_gone(
    broker: SecuredKafka, engine: str
) -> None:
    hidden = _topic(broker)
    with RecordReader(_settings(broker, engine)) as reader:

        def read() -> ReadForbidden:
            with pytest.raises(ReadForbidden) as caught:
                reader.read(hidden, 0, 0, timeout_s=LIMIT_S)
            return caught.value

        assert hidden in str(in_time(read, limit_s=SAID_WITHIN_S))


def test_a_reader_needs_no_right_to_a_group_and_names_a_forbidden_topic(
    broker: SecuredKafka, engine: str
) -> None:
    settings = _settings(broker, engine)
    ours = _topic(broker, ACLOperation.READ)
    closed = _topic(broker, ACLOperation.DESCRIBE)
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


def test_rights_are_described_and_each_refusal_is_named(broker: SecuredKafka, engine: str) -> None:
    settings = _settings(broker, engine)
    ours, hidden = _topic(broker, ACLOperation.READ), _topic(broker)
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
    assert settings.group not in admin.groups()
    admin.close()


def test_a_wrong_password_is_told_to_readers_and_administrators(
    broker: SecuredKafka, engine: str
) -> None:
    settings = _settings(broker, engine, sasl_plain_password="wrong")
    chosen = engine_of(settings)
    for connect in (
        lambda: chosen.administrator(settings, ANSWER_S),
        lambda: chosen.reader(settings, ReadingPlan(65_536, 65_536, connect_s=ANSWER_S)),
    ):
        with pytest.raises(KafkaUnavailable) as caught:
            connect()
        assert caught.value.fault is not None
        assert caught.value.fault.kind is SecurityKind.PASSWORD


def test_a_topic_that_may_not_be_written_is_named_and_its_neighbour_is_written(
    broker: SecuredKafka, engine: str
) -> None:
    ours = _topic(broker, ACLOperation.WRITE, ACLOperation.DESCRIBE)
    closed = _topic(broker, ACLOperation.DESCRIBE)
    writer = KafkaWriter(_settings(broker, engine))
    said = writer.write([Outgoing(one, 0, None, b"v", ()) for one in (closed, ours)])
    assert isinstance(said[0], NotAcknowledged) and said[1] is None
    assert said[0].fault is not None and said[0].fault.kind is SecurityKind.RIGHT
    assert "with Write" in said[0].fault.said
    writer.close()
