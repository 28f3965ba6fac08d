"""Every kind of login to a real broker, and passwords, tokens and certificates that are renewed."""

from __future__ import annotations

import base64
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation, KafkaAdminClient, ResourceType

from feedback.errors import KafkaUnavailable, SecurityFault, SecurityKind
from feedback.kafka.kafka_python.sender import KafkaPythonSender
from feedback.kafka.source import KafkaSource
from feedback.settings.sections import KafkaSection
from tests.eventually import eventually
from tests.stack.authority import Authority
from tests.stack.secured import SecuredKafka
from tests.stack.secured_stack import PLAIN_PASSWORD, PLAIN_USER, Secured

USER, FIRST, SECOND = PLAIN_USER, PLAIN_PASSWORD, "the-second-secret"
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def broker(secured: Secured) -> SecuredKafka:
    return secured.kafka


@pytest.fixture(scope="module")
def topic(broker: SecuredKafka) -> str:
    name = f"logins-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([name])
    for user in (USER, f"CN={USER}"):
        rights = (ACLOperation.WRITE, ACLOperation.DESCRIBE)
        broker.allow(user, ResourceType.TOPIC, name, *rights)
    return name


@pytest.fixture
def senders() -> Iterator[list[KafkaPythonSender]]:
    made: list[KafkaPythonSender] = []
    yield made
    for one in made:
        one.close(1.0)


def _sender(made: list[KafkaPythonSender], broker: SecuredKafka, **named: Any) -> KafkaPythonSender:
    secured = {"bootstrap_servers": broker.address, "security_protocol": "SASL_SSL"}
    settings = KafkaSection.model_validate({**secured, "ssl_cafile": str(broker.cafile), **named})
    made.append(KafkaPythonSender(settings, send_timeout_s=5.0, max_request_bytes=100_000))
    return made[-1]


def _send(sender: KafkaPythonSender, topic: str) -> object:
    return sender.send(topic, key=None, value=b"v", headers=[]).result()


def _token(user: str) -> str:
    """Return a token that nobody has signed."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": now_s + 600})
    words = (base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts)
    return ".".join(one.decode() for one in words) + "."


def _break(sender: KafkaPythonSender) -> None:
    """Close its connections, as a broker does that is started anew."""
    producer: Any = sender._producer
    manager = producer._metadata._manager
    for node_id in list(manager._conns):
        manager._net.call_soon(lambda node_id=node_id: manager.close(node_id))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password(
    broker: SecuredKafka, topic: str, senders: list[KafkaPythonSender], mechanism: str
) -> None:
    login = {"sasl_plain_username": USER, "sasl_plain_password": FIRST}
    assert _send(_sender(senders, broker, sasl_mechanism=mechanism, **login), topic)


def test_a_token_of_a_file(
    broker: SecuredKafka, topic: str, senders: list[KafkaPythonSender], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{_token(USER)}\n")
    named = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": str(file)}
    assert _send(_sender(senders, broker, **named), topic)
    file.write_text("no token")
    with pytest.raises(KafkaUnavailable, match="sasl_oauth_token_file") as caught:
        _send(_sender(senders, broker, **named), topic)
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.PASSWORD


def test_a_password_that_is_renewed_needs_no_restart(
    broker: SecuredKafka, topic: str, senders: list[KafkaPythonSender], tmp_path: Path
) -> None:
    user, file = f"renewed-{uuid.uuid4().hex}", tmp_path / "password"
    broker.set_password(user, FIRST)
    broker.allow(user, ResourceType.TOPIC, topic, ACLOperation.WRITE, ACLOperation.DESCRIBE)
    file.write_text(f"{FIRST}\n")
    sender = _sender(
        senders,
        broker,
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=user,
        sasl_plain_password_file=str(file),
    )
    assert _send(sender, topic)
    broker.set_password(user, SECOND)
    # The open connection goes on.
    assert _send(sender, topic)
    _break(sender)
    with pytest.raises(KafkaUnavailable) as caught:
        _send(sender, topic)
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.PASSWORD
    assert SECOND not in str(caught.value)
    file.write_text(f"{SECOND}\n")
    eventually(lambda: _is_sent(sender, topic), timeout_s=LIMIT_S)


def test_a_reader_of_a_group_names_the_fault_and_goes_on_when_it_is_mended(
    broker: SecuredKafka, topic: str, tmp_path: Path
) -> None:
    user, file = f"reading-{uuid.uuid4().hex}", tmp_path / "password"
    broker.set_password(user, FIRST)
    broker.allow(user, ResourceType.TOPIC, topic, ACLOperation.READ, ACLOperation.DESCRIBE)
    broker.allow(user, ResourceType.GROUP, user, ACLOperation.READ)
    file.write_text(FIRST)
    settings = KafkaSection(
        bootstrap_servers=broker.address,
        group=user,
        security_protocol="SASL_SSL",
        ssl_cafile=str(broker.cafile),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=user,
        sasl_plain_password_file=str(file),
    )
    source = KafkaSource(settings, [topic])

    def fault() -> SecurityFault | None:
        try:
            source.poll(0.1, max_records=1)
        except KafkaUnavailable as error:
            return error.fault
        return None

    eventually(lambda: fault() is None and source.is_joined, timeout_s=LIMIT_S)
    broker.set_password(user, SECOND)
    member: Any = source._member
    for connection in list(member._consumer._coordinator._manager._conns.values()):
        connection.close()
    found = eventually(fault, timeout_s=LIMIT_S)
    assert found is not None and found.kind is SecurityKind.PASSWORD
    file.write_text(SECOND)
    eventually(lambda: fault() is None and source.is_joined, timeout_s=LIMIT_S)
    source.close()


def test_a_password_file_that_is_gone_is_named(
    broker: SecuredKafka, topic: str, senders: list[KafkaPythonSender], tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    login = {"sasl_plain_username": USER, "sasl_plain_password_file": gone}
    with pytest.raises(KafkaUnavailable, match=r"sasl_plain_password_file = .*gone") as caught:
        _send(_sender(senders, broker, sasl_mechanism="PLAIN", **login), topic)
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.FILE


def test_a_client_certificate_that_is_missing_foreign_or_renewed(
    secured: Secured,
    topic: str,
    senders: list[KafkaPythonSender],
    tmp_path: Path,
) -> None:
    mine, stranger = tmp_path / "client.crt", Authority(tmp_path, name="another authority")
    key = tmp_path / "client.key"
    foreign, right = stranger.issue("foreign", hosts=()), secured.authority.issue(USER, hosts=())

    def install(certificate: Any) -> None:
        shutil.copyfile(certificate.cert, mine)
        shutil.copyfile(certificate.key, key)

    broker = secured.kafka
    way = {"bootstrap_servers": broker.mutual, "security_protocol": "SSL"}
    files = {"ssl_certfile": str(mine), "ssl_keyfile": str(key)}
    with pytest.raises(KafkaUnavailable) as caught:
        _send(_sender(senders, broker, **way), topic)
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.CLIENT_CERTIFICATE
    install(foreign)
    sender = _sender(senders, broker, **way, **files)
    with pytest.raises(KafkaUnavailable) as caught:
        _send(sender, topic)
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.CLIENT_CERTIFICATE
    install(right)
    eventually(lambda: _is_sent(sender, topic), timeout_s=LIMIT_S)
    # The files are read for each connection.
    install(foreign)
    _break(sender)
    with pytest.raises(KafkaUnavailable) as caught:
        _send(sender, topic)
    assert caught.value.fault is not None
    install(right)
    eventually(lambda: _is_sent(sender, topic), timeout_s=LIMIT_S)


def _is_sent(sender: KafkaPythonSender, topic: str) -> bool:
    try:
        return bool(_send(sender, topic))
    except KafkaUnavailable:
        return False
