"""A broker that refuses a connection, whatever library that stands on: which fault, and when."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, ResourceType

from feedback.errors import KafkaUnavailable, SecurityFault, SecurityKind
from feedback.kafka.confluent import member
from feedback.kafka.confluent.member import ConfluentMember
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import GroupRefused
from feedback.kafka.member import ANSWER_S
from feedback.kafka.partition_reader import ReadingPlan
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST
from tests.eventually import eventually
from tests.feedback.kafka.engines.guarded import USER, guarded_topic, settings_of_user
from tests.feedback.kafka.engines.members import LIMIT_S, Told
from tests.rounds import in_time
from tests.stack.authority import Authority
from tests.stack.secured import SecuredKafka
from tests.stack.tls_front import self_signed, tls_front

pytestmark = pytest.mark.waits

# The sentence of a fault is told within this time, whatever the library.
SAID_WITHIN_S = 5.0
VALUES = [b"1", b"2", b"3"]


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
    found = _refused(settings_of_user(broker, engine, sasl_plain_password="wrong"))
    assert found.kind is SecurityKind.PASSWORD
    assert "wrong" not in found.said


def test_a_certificate_of_an_authority_that_is_not_trusted(
    broker: SecuredKafka, engine: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    found = _refused(settings_of_user(broker, engine, ssl_cafile=str(other.cafile)))
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
        assert _refused(settings_of_user(broker, engine, **at)).kind is kind


def test_a_file_that_is_not_there_is_named(broker: SecuredKafka, engine: str) -> None:
    found = _refused(settings_of_user(broker, engine, ssl_cafile="/no/such/ca.pem"))
    assert found.kind is SecurityKind.FILE
    assert "[kafka] ssl_cafile = /no/such/ca.pem (No such file or directory)" in found.said


def test_tls_where_the_broker_has_none_and_none_where_it_has(
    broker: SecuredKafka, engine: str
) -> None:
    without = settings_of_user(broker, engine, security_protocol="SASL_PLAINTEXT")
    assert _refused(without).kind is SecurityKind.NEEDS_TLS
    plain = {"bootstrap_servers": broker.plain, "security_protocol": "SSL"}
    unneeded = KafkaSection.model_validate(
        {**plain, "client": engine, "ssl_cafile": str(broker.cafile)}
    )
    assert _refused(unneeded).kind is SecurityKind.NO_TLS


@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_partitions_whose_offset_was_refused_are_read_when_it_is_granted(
    broker: SecuredKafka, monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    """librdkafka asks once, as partitions come, and would never read them then."""
    settings = settings_of_user(broker, "confluent", assignor=assignor)
    name = guarded_topic(broker, ACLOperation.READ)
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
    read: list[bytes | None] = []

    def is_read() -> bool:
        with suppress(GroupRefused):  # of a heartbeat from before the grant
            read.extend(one.value for one in told.poll())
        return len(read) >= len(VALUES)

    eventually(is_read, timeout_s=LIMIT_S)
    assert read == VALUES
    told.close()


def test_a_wrong_password_is_told_to_readers_and_administrators(
    broker: SecuredKafka, engine: str
) -> None:
    settings = settings_of_user(broker, engine, sasl_plain_password="wrong")
    chosen = engine_of(settings)
    for connect in (
        lambda: chosen.administrator(settings, ANSWER_S),
        lambda: chosen.reader(settings, ReadingPlan(65_536, 65_536, connect_s=ANSWER_S)),
    ):
        with pytest.raises(KafkaUnavailable) as caught:
            connect()
        assert caught.value.fault is not None
        assert caught.value.fault.kind is SecurityKind.PASSWORD
