"""Each engine in turn."""

from __future__ import annotations

import pytest

from tests.feedback.kafka.engines.members import ENGINES


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine."""
    return str(request.param)
