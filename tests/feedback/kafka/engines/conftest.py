"""Settings for each engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import MakeMember, Told
from tests.stack import Servers
from tests.stack.restartable import Restartable


@pytest.fixture
def settings(servers: Servers, engine: str, group: str) -> KafkaSection:
    """Return settings for the shared broker."""
    return KafkaSection.model_validate(
        {"bootstrap_servers": servers.kafka, "client": engine, "group": group}
    )


@pytest.fixture
def make_member(settings: KafkaSection) -> Iterator[MakeMember]:
    """Yield a factory of members, closed at the end; settings are the named ones, changed."""
    with ExitStack() as ends:

        def make(*topics: str, **changed: object) -> Told:
            told = Told(settings.model_copy(update=changed), *topics)
            ends.callback(told.close)
            return told

        yield make


@pytest.fixture
def name(mortal_broker: Restartable) -> str:
    """Return a topic there."""
    made = f"topic-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=mortal_broker.address) as admin:
        admin.create_topics([NewTopic(made, 1, 1)])
        admin.wait_for_topics([made])
    return made
