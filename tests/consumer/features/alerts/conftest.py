"""Webhooks that listen."""

from collections.abc import Iterator

import pytest

from tests.kit.webhook import Hook, open_hook


@pytest.fixture
def hook() -> Iterator[Hook]:
    """Yield a webhook."""
    with open_hook() as opened:
        yield opened


@pytest.fixture
def other_hook() -> Iterator[Hook]:
    """Yield another one."""
    with open_hook() as opened:
        yield opened
