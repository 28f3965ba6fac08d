"""All rows, in the order of the table."""

from __future__ import annotations

from tests.chaos import (
    browsers,
    callers,
    children,
    clocks,
    control,
    database,
    deploys,
    forgetting,
    group,
    growth,
    kafka,
    links,
    lost_commits,
    poison,
    poolers,
    redis,
    redis_past,
    transactions,
    workers,
)
from tests.chaos.row import Row

KINDS = (
    control,
    children,
    poison,
    workers,
    deploys,
    redis,
    redis_past,
    database,
    lost_commits,
    poolers,
    kafka,
    transactions,
    links,
    group,
    growth,
    forgetting,
    clocks,
    callers,
    browsers,
)
# What the short form runs: a few seconds each, one of each kind of death.
SHORT = ("child-kill", "all-workers-kill", "redis-kill", "postgres-away")
ROWS: dict[str, Row] = {row.fault: row for kind in KINDS for row in kind.ROWS}
