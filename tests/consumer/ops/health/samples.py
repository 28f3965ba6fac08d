"""Vitals for tests: of a worker that is well, with what a test changes."""

from dataclasses import replace
from typing import Any

from consumer.ops.health.vitals import Vitals

WELL = Vitals(
    waiting=0,
    waiting_limit=8,
    held=0,
    slots=2,
    slots_busy=0,
    free_slots=2,
    children=2,
    children_ready=2,
    replaced={"died": 0},
    is_open=True,
    is_joined=True,
    partitions=4,
    kafka_away=False,
    redis_away=False,
    journal_away=False,
    lease_left_s=4.0,
    untold=0,
    is_draining=False,
)


def vitals(**changes: Any) -> Vitals:
    """Return those of a worker that is well but for the changes."""
    return replace(WELL, **changes)
