"""Redrives that were cut off, or are at work: how many requests they may not have sent.

Only a resume of the redrive sends them, so each command that meets one names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from consumer.dlq.redrive.process import is_at_work
from consumer.journal.lookup import Lookup
from consumer.journal.unsent import UnfinishedRedrive
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.settings.settings import Settings


def unfinished_of(settings: Settings) -> list[UnfinishedRedrive]:
    """Return the group's unfinished redrives, without the owners that have certainly ended.

    Raises:
        NotAvailable: the journal is away.
    """
    with Lookup.from_settings(settings) as lookup:
        return [_with_owner_at_work(one) for one in lookup.unfinished()]


def _with_owner_at_work(one: UnfinishedRedrive) -> UnfinishedRedrive:
    return one if is_at_work(one.owner, one.silent_ms) else one._replace(owner=None)


def resume_command(redrive_id: str, *, config: str | None) -> str:
    """Return the command that finishes a redrive, as a shell takes it. Pure."""
    file = () if config is None else ("--config", config)
    return shlex.join(("onceward-dlq", "redrive", *file, "--resume", redrive_id))


def unfinished_words(one: UnfinishedRedrive) -> str:
    """Return what an unfinished redrive has left, and whether it is at work. Pure."""
    requests = counted(len(one.requests), "request")
    if one.owner is not None:
        how = "is under way" if one.state == "running" else "is cancelled and ends"
        return f"redrive {one.redrive_id} {how} in the process {one.owner}: {requests} unsent yet"
    how = "was cut off" if one.state == "running" else "is cancelled"
    return (
        f"redrive {one.redrive_id} {how}: {requests} may be unsent, and nothing else sends them; "
        "go on with it"
    )


def unfinished_lines(
    found: Sequence[UnfinishedRedrive], *, config: str | None = None
) -> Iterator[str]:
    """Yield two lines for each: how it stands, and the command that finishes it. Pure."""
    for one in found:
        yield printable(unfinished_words(one))
        yield printable(resume_command(one.redrive_id, config=config))


def unfinished_json(one: UnfinishedRedrive) -> dict[str, Any]:
    """Return an unfinished redrive as JSON values. Pure."""
    return {
        "redrive_id": one.redrive_id,
        "state": one.state,
        "process": one.owner,
        "unsent": len(one.requests),
    }
