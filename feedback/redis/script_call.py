"""The arguments of one call of the status script, for each write. Pure."""

from __future__ import annotations

from feedback.redis.status_script import PAYLOAD_DROP, PAYLOAD_KEEP, PAYLOAD_SET
from feedback.status import may_reopen
from feedback.statuses import StatusWrite


def arguments_of(write: StatusWrite, *, ttl_ms: int, channel: str) -> list[str | bytes | int]:
    """Return the script's arguments for one write: its head, and then its fields.

    Args:
        ttl_ms: how long the status and its payload live.
        channel: where the change is published.
    """
    fields: list[str | bytes | int] = [
        "status", write.state, "attempt", write.attempt,
        "payload_sha256", write.payload_sha256,
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
        "" if write.reopens is None else write.reopens, write.topic,
        "" if write.follows is None else write.follows, ttl_ms, channel, action, payload,
        len(fields), write.request_id, *fields,
    ]  # fmt: skip
