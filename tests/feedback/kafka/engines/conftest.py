"""Settings for each engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import ENGINES, MakeMember, Told
from tests.stack import Servers


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine."""
    return str(request.param)


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
