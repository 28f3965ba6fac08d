"""The core that a test offers to a feature's factory: what the test needs of it, and nothing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from consumer.loop.core import Core
from feedback.settings.settings import Settings


def core_of(settings: Settings, **given: Any) -> Core:
    """Return a core with these fields; the others are None, or empty."""
    values: dict[str, Any] = dict.fromkeys(one.name for one in fields(Core))
    values |= {"worker_id": "w", "handlers": (), "gates": [], "features": []}
    return Core(**{**values, "settings": settings, **given})
