"""What one call of the status script carries for each write. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from feedback.status import may_reopen
from feedback.status_script import PAYLOAD_DROP, PAYLOAD_KEEP, PAYLOAD_SET
from feedback.statuses import StatusWrite


def arguments_of(
    write: StatusWrite, *, now: str, ttl_ms: int, channel: str
) -> list[str | bytes | int]:
    """Return the script's arguments for one write: its head, and then its fields.

    Args:
        now: epoch ms.
        ttl_ms: how long the status and its payload live.
        channel: where the change is published.
    """
    fields: list[str | bytes | int] = [
        "status", write.state, "attempt", write.attempt,
        "payload_sha256", write.payload_sha256, "updated_at", now,
    ]  # fmt: skip
    if write.generation:
        fields += ("generation", write.generation)
    for name, value in write.fields.items():
        fields += (name, value)
    if write.payload is not None:
        action, payload = PAYLOAD_SET, write.payload.encode()
    elif may_reopen(write.state, resend=write.fields.get("resend") == "1"):
        action, payload = PAYLOAD_KEEP, b""
    else:
        action, payload = PAYLOAD_DROP, b""
    return [
        write.state, write.attempt, write.generation, write.payload_sha256,
        "1" if write.restore else "0", "*" if write.held_by is None else write.held_by,
        ttl_ms, channel, action, payload,
        len(fields), *fields,
    ]  # fmt: skip


def by_openness(writes: Sequence[StatusWrite]) -> tuple[list[str], list[str]]:
    """Return the requests that the last of their writes leaves open, and the others."""
    is_open = {
        write.request_id: may_reopen(write.state, resend=write.fields.get("resend") == "1")
        for write in writes
    }
    open_ids = [request_id for request_id, still in is_open.items() if still]
    return open_ids, [request_id for request_id, still in is_open.items() if not still]
