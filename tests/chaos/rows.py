"""All rows, in the order of the table."""

from __future__ import annotations

from tests.chaos import children, control, database, group, kafka, links, poison, redis, workers
from tests.chaos.row import Row

KINDS = (control, children, poison, workers, redis, database, kafka, links, group)
# What the short form runs: a few seconds each, one of each kind of death.
SHORT = ("child-kill", "all-workers-kill", "redis-kill", "postgres-away")
ROWS: dict[str, Row] = {row.fault: row for kind in KINDS for row in kind.ROWS}
