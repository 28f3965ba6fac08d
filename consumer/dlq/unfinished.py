"""Redrives that were cut off, or are at work: how many requests they may not have sent.

Only a resume of the redrive sends them, so each command that meets one names it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from consumer.journal.lookup import Lookup
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.settings.settings import Settings

# A process that has written nothing for so long has nothing under way any more: its slowest batch
# waits for Redis, for Kafka's topics and for the acknowledgements, each for seconds.
SILENT_MS = 30_000


def new_owner() -> str:
    """Return a name for this process that no other process has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Whether the owner is a process of this host that has certainly ended."""
    host, _, rest = owner.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def is_at_work(owner: str | None, silent_ms: int) -> bool:
    """Whether a redrive's process may still have something under way.

    Args:
        owner: None where it was stopped in order.
        silent_ms: how long ago it last wrote to the journal.
    """
    return owner is not None and not is_gone(owner) and silent_ms <= SILENT_MS


def unfinished_of(settings: Settings) -> list[UnfinishedRedrive]:
    """Return the group's unfinished redrives, without the owners that have certainly ended."""
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
