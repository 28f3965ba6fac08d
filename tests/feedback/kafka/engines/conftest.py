"""Grounds that fail or refuse, and members; `memory` has others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.grounds import Ground, RealGround, settings_at
from tests.feedback.kafka.engines.guarded import PASSWORD, USER, GuardedGround, SecuredGround
from tests.feedback.kafka.engines.members import MakeMember, Told
from tests.stack.restartable import Restartable
from tests.stack.secured import SecuredKafka
from tests.stack.secured_stack import Secured


@pytest.fixture(scope="module")
def broker(secured: Secured) -> SecuredKafka:
    """Return the secured broker, which has a user of these tests."""
    secured.kafka.set_password(USER, PASSWORD)
    return secured.kafka


@pytest.fixture
def guarded(broker: SecuredKafka, engine: str) -> GuardedGround:
    """Return a broker whose user has no right but those that a test gives."""
    return SecuredGround(broker, engine)


@pytest.fixture
def mortal(mortal_broker: Restartable) -> Ground:
    """Return a broker that may fail."""
    return RealGround(mortal_broker.address, mortal_broker)


@pytest.fixture
def mortal_settings(mortal: Ground, engine: str, group: str) -> KafkaSection:
    """Return settings for the broker that may fail."""
    return settings_at(mortal.address, engine, group)


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
def name(mortal: Ground) -> str:
    """Return a topic of the broker that may fail."""
    made = f"topic-{uuid.uuid4().hex}"
    mortal.make_topic(made, 1)
    return made
