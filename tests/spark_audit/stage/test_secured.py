"""A broker with TLS, passwords and rights: what the audit needs of it, and how it says so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType
from pyspark.sql import SparkSession

from feedback.errors import ExitCode, NotAvailable
from feedback.logs import event_of
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.settings.settings import Settings
from spark_audit.run.preparation import require_readable
from spark_audit.stage.freeze import freeze
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.stage_records import stage_records
from spark_audit.stage.window import Window
from tests.spark_audit.stage.conftest import Rows
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS
from tests.stack.secured import SecuredKafka, secured_kafka

WINDOW = Window(DATE, BEGIN_MS, BEGIN_MS + DAY_MS)
PASSWORD = 'Pa$$w0rd-"\\;of-the-audit'
WRONG = "another-secret-0f-the-audit"
# What the README names: of the topics, and of the group.
TOPIC_RIGHTS = (ACLOperation.DESCRIBE, ACLOperation.READ, ACLOperation.DESCRIBE_CONFIGS)
GROUP_RIGHTS = (ACLOperation.DESCRIBE,)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Yield a broker whose user `auditor` is known to both ways of proving it."""
    folder = tmp_path_factory.mktemp("secured")
    plain = {"auditor": "plain-secret"}
    with secured_kafka(folder, plain=plain, scram={"auditor": PASSWORD}) as made:
        yield made


@pytest.fixture
def topic(broker: SecuredKafka) -> str:
    """Return a topic with one record of the day, to which the user has no right yet."""
    name = f"topic-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.wait_for_topics([name])
    producer = KafkaProducer(bootstrap_servers=broker.plain)
    producer.send(name, b"{}", timestamp_ms=BEGIN_MS + 1).get(timeout=60)
    producer.close()
    return name


@pytest.fixture(autouse=True)
def only_what_a_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the environment says of Kafka, and the patience with brokers that are away."""
    monkeypatch.delenv("ONCEWARD_KAFKA__BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr("feedback.kafka.questions.TIMEOUT_MS", 5_000)


def allow(
    broker: SecuredKafka, topic: str, group: str, *rights: ACLOperation, letters: bool = True
) -> None:
    """Give the auditor rights on a topic, all by default, and on its dead letter topic."""
    names = [topic, dead_letter_topic(topic, group)] if letters else [topic]
    for name in names:
        broker.allow("auditor", ResourceType.TOPIC, name, *(rights or TOPIC_RIGHTS))


def settings_of(broker: SecuredKafka, topic: str, group: str, **changes: Any) -> Settings:
    """Return the settings of the user `auditor`."""
    kafka = {
        "bootstrap_servers": broker.address,
        "group": group,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.cafile),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "auditor",
        "sasl_plain_password": PASSWORD,
    }
    return Settings.model_validate({"kafka": kafka | changes, "audit": {"topics": [topic]}})


def frozen(settings: Settings) -> Manifest:
    """Return the limits of the test's day."""
    return freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS)


def refused(error: pytest.ExceptionInfo[NotAvailable]) -> str:
    """Return the sentence of a refusal, after a look at what must not be in it."""
    text = str(error.value)
    assert error.value.exit_code is ExitCode.NOT_AVAILABLE
    assert "\n" not in text
    assert not [
        secret for secret in (PASSWORD, WRONG, "plain-secret", "required") if secret in text
    ]
    return text


@pytest.mark.parametrize(
    ("mechanism", "password"),
    [("PLAIN", "plain-secret"), ("SCRAM-SHA-256", PASSWORD), ("SCRAM-SHA-512", PASSWORD)],
    ids=["plain", "scram-256", "scram-512"],
)
def test_a_user_with_the_rights_reads_by_tls_and_password(
    broker: SecuredKafka,
    topic: str,
    group: str,
    spark: SparkSession,
    tmp_path: Path,
    rows: Rows,
    mechanism: str,
    password: str,
) -> None:
    allow(broker, topic, group)
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    settings = settings_of(
        broker, topic, group, sasl_mechanism=mechanism, sasl_plain_password=password
    )
    manifest = frozen(settings)
    stage_records(spark, settings.kafka, manifest, tmp_path / "records")
    assert [row["topic"] for row in rows(tmp_path / "records")] == [topic]


def test_a_wrong_password_is_one_sentence_without_it(
    broker: SecuredKafka, topic: str, group: str
) -> None:
    with pytest.raises(NotAvailable, match=r"refuses user or password: correct \[kafka\]") as error:
        frozen(settings_of(broker, topic, group, sasl_plain_password=WRONG))
    assert broker.address in refused(error)


def test_a_password_that_is_changed_after_the_freeze_is_one_sentence_without_it(
    broker: SecuredKafka, topic: str, group: str, spark: SparkSession, tmp_path: Path
) -> None:
    allow(broker, topic, group)
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    manifest = frozen(settings_of(broker, topic, group))
    wrong = settings_of(broker, topic, group, sasl_plain_password=WRONG)
    with pytest.raises(NotAvailable, match=r"(?i)authentication") as error:
        stage_records(spark, wrong.kafka, manifest, tmp_path / "records")
    assert broker.address in refused(error)


def test_a_certificate_that_nobody_trusts_is_one_sentence(
    broker: SecuredKafka, topic: str, group: str
) -> None:
    with pytest.raises(NotAvailable, match=r"(?i)certificate") as error:
        frozen(settings_of(broker, topic, group, ssl_cafile=None))
    assert broker.address in refused(error)


def test_a_topic_that_may_not_be_seen_is_named_with_the_rights_it_needs(
    broker: SecuredKafka, topic: str, group: str
) -> None:
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    with pytest.raises(NotAvailable) as error:
        frozen(settings_of(broker, topic, group))
    assert refused(error) == (
        f"topic {topic} may not be read: it needs the rights Describe and Read for this user"
    )


def test_a_dead_letter_topic_that_may_not_be_seen_is_named(
    broker: SecuredKafka, topic: str, group: str
) -> None:
    """Left out, the audit would miss no letter."""
    allow(broker, topic, group, letters=False)
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    letters = dead_letter_topic(topic, group)
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(letters, 1, 1)])
        admin.wait_for_topics([letters])
    with pytest.raises(NotAvailable) as error:
        frozen(settings_of(broker, topic, group))
    assert refused(error) == (
        f"topic {letters} may not be read: it needs the rights Describe and Read for this user"
    )


def test_a_topic_that_may_be_seen_and_not_read_is_named(
    broker: SecuredKafka, topic: str, group: str, spark: SparkSession, tmp_path: Path
) -> None:
    allow(broker, topic, group, ACLOperation.DESCRIBE)
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    settings = settings_of(broker, topic, group)
    manifest = frozen(settings)
    with pytest.raises(NotAvailable) as error:
        require_readable(settings.kafka, manifest)
    told = f"topic {topic} may not be read: it needs the right Read for this user"
    assert refused(error) == told
    with pytest.raises(NotAvailable, match="Not authorized to access topics") as error:
        stage_records(spark, settings.kafka, manifest, tmp_path / "records")
    assert topic in refused(error)


def test_a_group_that_may_not_be_seen_is_said_with_the_right_it_needs(
    broker: SecuredKafka, topic: str, group: str
) -> None:
    allow(broker, topic, group)
    with pytest.raises(NotAvailable) as error:
        frozen(settings_of(broker, topic, group))
    said = refused(error)
    assert said.startswith(
        f"Kafka at {broker.address} refuses: this user needs Describe on the group"
    )
    assert said.endswith(f"{group})")


def test_without_the_right_to_see_a_policy_only_wait_topics_count_as_compacted(
    broker: SecuredKafka, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    wait = f"{topic}.{group}.wait"
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(wait, 1, 1)])
        admin.wait_for_topics([wait])
    for name in (topic, wait):
        allow(broker, name, group, ACLOperation.DESCRIBE, ACLOperation.READ)
    broker.allow("auditor", ResourceType.GROUP, group, *GROUP_RIGHTS)
    manifest = frozen(settings_of(broker, topic, group))
    assert manifest.compacted == (wait,)
    assert "audit.policy_unseen" in map(event_of, caplog.records)
