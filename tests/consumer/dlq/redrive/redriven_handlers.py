"""Handlers that fail until somebody has repaired what they need: a file beside that of the runs."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from consumer import Rejected, Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))


def is_repaired() -> bool:
    """Whether what the handlers need is there."""
    return Path(os.environ["TEST_RUNS"] + ".repaired").exists()


def _count(request: Request) -> None:
    line = {
        "at": "run",
        "request_id": request.request_id,
        "generation": request.generation,
        "attempt": request.attempt,
        "headers": {name: (value or b"").decode() for name, value in request.headers},
    }
    file = os.open(os.environ["TEST_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


if "repairable" in _TOPICS:

    @handler(topic=_TOPICS["repairable"], effect="marked", deadline_s=600)
    def repairable(request: Request) -> dict[str, object]:
        """Fail until it is repaired; a value that says `amount: "bad"` always fails."""
        _count(request)
        body = json.loads(request.value or b"{}")
        if "gate" in body and is_repaired():
            with open(body["gate"]) as file:  # noqa: PTH123 - the lock belongs to this descriptor
                fcntl.flock(file, fcntl.LOCK_SH)
        if not is_repaired() or body.get("amount") == "bad":
            raise Rejected("BANK_CLOSED", "the bank is closed")
        return {"took": body.get("amount")}


if "strict" in _TOPICS:
    # Only here: it takes a child as long to import as all else together.
    from pydantic import BaseModel

    class Payment(BaseModel):
        """What a payment has to be."""

        amount: int

    @handler(
        topic=_TOPICS["strict"],
        effect="marked",
        deadline_s=600,
        model=Payment if is_repaired() else None,
    )
    def strict(request: Request) -> dict[str, object]:
        """Fail always; once it is repaired, a worker that starts refuses what is no payment."""
        _count(request)
        raise Rejected("BANK_CLOSED", "the bank is closed")


if "doubtful" in _TOPICS:

    @handler(topic=_TOPICS["doubtful"], effect="marked")
    def doubtful(request: Request) -> dict[str, object]:
        """Fail within the effect until it is repaired."""
        _count(request)
        with request.effect():
            if not is_repaired():
                raise RuntimeError("no answer from the bank")
        return {"took": "all"}
