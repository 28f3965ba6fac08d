"""The workers of a group for a person. All foreign text is made printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from consumer.dlq.dates import moment
from consumer.dlq.list_page import unmarked
from consumer.journal.workers import HeldClaims
from consumer.ops.workers.ages import age
from consumer.ops.workers.workers import UNREADABLE, WorkerLoad, WorkerRow, WorkerState
from feedback.console.plurals import counted

# Narrower terminals get neither; the JSON has both.
WITH_VERSION = 110

_COLOURS = {
    WorkerState.LIVES: "green",
    WorkerState.DRAINS: "yellow",
    WorkerState.DEAD: "red",
}


def workers_page(rows: Sequence[WorkerRow], *, width: int) -> RenderableType:
    """Return the page."""
    parts: list[RenderableType] = [_table(rows, width)]
    for one in rows:
        parts += _further(one)
    return Group(*parts)


def row_json(one: WorkerRow) -> dict[str, Any]:
    """Return a worker as `--json` prints it."""
    load = one.heartbeat.load if one.heartbeat and one.heartbeat.is_read else None
    claims = one.held
    return {
        "worker_id": one.worker_id,
        "host": one.host,
        "state": one.state.value.replace(" ", "_"),
        "started_at": one.started_at,
        "lease_left_s": one.lease_left_s,
        "heartbeat_age_s": one.heartbeat and round(one.heartbeat.age_s, 3),
        "version": load and load.version,
        "slots": load and load.slots,
        "slots_busy": load and load.slots_busy,
        "held": load and load.held,
        "waiting": load and load.waiting,
        "oldest_s": None if one.oldest_s is None else round(one.oldest_s, 3),
        "paused": load and dict(load.paused),
        "lag": load and dict(load.lag),
        "left": None if claims is None else [_claims_json(claim) for claim in claims],
    }


def _claims_json(one: HeldClaims) -> dict[str, Any]:
    return {"topic": one.topic, "requests": one.requests, "oldest_s": one.oldest_ms / 1000}


def _table(rows: Sequence[WorkerRow], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("worker", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("since", no_wrap=width >= WITH_VERSION)
    for name in ("busy", "oldest", "heartbeat", "lease"):
        table.add_column(name, justify="right", no_wrap=True)
    if width >= WITH_VERSION:
        table.add_column("version", no_wrap=True)
        table.add_column("host", overflow="fold")
    for one in rows:
        table.add_row(*_cells(one)[: len(table.columns)])
    return table


def _cells(one: WorkerRow) -> list[Text]:
    load = one.heartbeat.load if one.heartbeat else None
    busy = ""
    if load is not None and load.slots_busy is not None:
        busy = f"{load.slots_busy} of {load.slots}"
    left_s = one.lease_left_s
    return [
        unmarked(one.worker_id),
        Text(one.state.value, style=_COLOURS.get(one.state, "yellow")),
        Text(moment(one.started_at)),
        Text(busy),
        Text(age(one.oldest_s)),
        Text(f"{age(one.heartbeat.age_s)} ago" if one.heartbeat else "none"),
        Text(age(left_s) if left_s > 0 else f"over {age(-left_s)}"),
        unmarked(load.version if load else None),
        unmarked(one.host),
    ]


def _further(one: WorkerRow) -> list[RenderableType]:
    """Return lines about a worker's paused topics, the records that wait for it in Kafka, and the
    claims that it has left."""
    load = one.heartbeat.load if one.heartbeat else WorkerLoad()
    lines: list[RenderableType] = [
        unmarked(f"{one.worker_id}: {topic} is paused by {by}") for topic, by in load.paused.items()
    ]
    if one.heartbeat and not one.heartbeat.is_read:
        lines.append(unmarked(f"{one.worker_id}: {UNREADABLE}"))
    lines += [
        unmarked(f"{one.worker_id} has {counted(records, 'record')} of {topic} left to read")
        for topic, records in load.lag.items()
        if records
    ]
    if one.held is None:
        lines.append(unmarked(f"{one.worker_id}: what it has left was not counted"))
    else:
        lines += [
            unmarked(
                f"{one.worker_id} has left {claims.requests:,} claimed of {claims.topic}, "
                f"the oldest {age(claims.oldest_ms / 1000)} ago"
            )
            for claims in one.held
        ]
    return lines
