"""The secured servers let in their users alone, and let them do only that which they may."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
import redis
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACLOperation, NewTopic, ResourceType
from kafka.errors import TopicAuthorizationFailedError

from feedback.kafka.admin import administrator
from feedback.kafka.errors import KafkaFault
from feedback.settings.settings import Settings
from tests.eventually import eventually
from tests.stack.postgres import dsn
from tests.stack.secured_stack import Secured, password_of

USER = "worker"


@pytest.fixture
def database(secured: Secured) -> Iterator[str]:
    """Yield the name of a database in which nobody has a right."""
    with secured.postgres.database(f"test_{uuid.uuid4().hex}") as name:
        yield name


@pytest.fixture
def settings(secured: Secured, database: str, no_given_servers: None) -> Settings:
    """Return the settings of one user."""
    return Settings.model_validate(secured.settings(USER, group="g", database=database))


@pytest.mark.long
def test_a_right_to_a_topic_is_given_and_taken_away(secured: Secured, settings: Settings) -> None:
    topic = f"topic-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=secured.kafka.plain) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    connection = {**settings.kafka.connection(), "allow_auto_create_topics": False}
    with KafkaProducer(**connection, acks=1, enable_idempotence=False) as producer:

        def may_send() -> bool:
            try:
                producer.send(topic, b"a").get(timeout=10)
            except TopicAuthorizationFailedError:
                return False
            return True

        assert not may_send()
        secured.kafka.allow(USER, ResourceType.TOPIC, topic, ACLOperation.WRITE)
        eventually(may_send)
        secured.kafka.take_away(USER, ResourceType.TOPIC, topic, ACLOperation.WRITE)
        eventually(lambda: not may_send())


@pytest.mark.long
def test_a_command_and_a_key_of_redis_are_given_one_by_one(
    secured: Secured, settings: Settings
) -> None:
    with redis.Redis.from_url(settings.redis.url) as client:
        with pytest.raises(redis.exceptions.NoPermissionError, match="'get' command"):
            client.get("onceward:a")
        secured.redis.set_user(USER, "+get", "~onceward:*")
        assert client.get("onceward:a") is None
        with pytest.raises(redis.exceptions.NoPermissionError, match="one of the keys"):
            client.get("another")
        secured.redis.set_user(USER, "-get", "resetkeys")


@pytest.mark.long
def test_a_user_of_postgresql_may_not_even_connect_before_it_is_allowed(
    secured: Secured, settings: Settings, database: str
) -> None:
    url = dsn(settings.journal.url)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(url)
    secured.postgres.run(f"GRANT CONNECT ON DATABASE {database} TO {USER}")
    with psycopg.connect(url) as session:
        encrypted = session.execute(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert encrypted == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("CREATE TABLE public.a (b int)")


@pytest.mark.long
def test_another_password_is_wanted_at_the_next_connection(
    secured: Secured, settings: Settings, database: str
) -> None:
    secured.postgres.run(f"GRANT CONNECT ON DATABASE {database} TO {USER}")
    try:
        secured.set_password(USER, "another")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(dsn(settings.journal.url))
        with (
            redis.Redis.from_url(settings.redis.url) as client,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            client.execute_command("ACL", "WHOAMI")
        # A broker learns of a password after its controller has answered.
        eventually(lambda: "refuses user or password" in _refusal(settings), what="a refusal")
    finally:
        secured.set_password(USER, password_of(USER))
    eventually(lambda: not _refusal(settings), what="the old password")


def _refusal(settings: Settings) -> str:
    """Return why Kafka does not let a user in, and nothing if it does."""
    try:
        with administrator(settings.kafka, timeout_s=10.0):
            return ""
    except KafkaFault as error:
        return str(error)
