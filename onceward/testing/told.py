"""The status that a test tells of a request, as a worker would write it."""

from __future__ import annotations

import json

from feedback.status import BEFORE_CLAIM, State
from feedback.statuses import Status, StatusWrite

_BEGINS_RUN = frozenset({*BEFORE_CLAIM, State.LOST, State.RETRYING})


class StatusRefused(AssertionError):
    """A test told a status that no worker would."""


def told_write(
    known: Status,
    state: State,
    *,
    result: object,
    code: str | None,
    message: str | None,
    resend: bool,
    worker_id: str,
) -> StatusWrite:
    """Return the write that brings a request to a state.

    Raises:
        StatusRefused: it was not sent, or the state is UNKNOWN.
    """
    if known.state is State.UNKNOWN:
        raise StatusRefused(f"{known.request_id} was not sent: send it first")
    if state is State.UNKNOWN:
        raise StatusRefused("UNKNOWN is told of no request: it is one that was not sent")
    stored = State.ACCEPTED if state is State.LOST else state
    fields = {"worker": worker_id, "code": code or "", "message": message or ""}
    if result is not None:
        fields["result"] = json.dumps(result)
    if state is State.FAILED:
        fields["resend"] = "1" if resend else "0"
    begins_run = known.state in _BEGINS_RUN
    return StatusWrite(
        request_id=known.request_id,
        state=stored,
        attempt=known.attempt,
        generation=0 if stored in BEFORE_CLAIM else known.generation + begins_run,
        payload_sha256=known.payload_sha256 or "",
        fields=fields,
    )
