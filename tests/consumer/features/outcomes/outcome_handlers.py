"""Handlers of the workers under test whose outcomes go on, beside those of `worker_handlers`."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

from consumer import InDoubt, Rejected, Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))


def _outcomes_of(topic: str) -> str:
    return f"{topic}.outcomes"


if "telling" in _TOPICS:

    @handler(
        topic=_TOPICS["telling"],
        effect="marked",
        outcome_topic=_outcomes_of(_TOPICS["telling"]),
        retry_on=("BUSY",),
        deadline_s=float(os.environ.get("TEST_DEADLINE_S", "3600")),
    )
    def telling(request: Request) -> Any:
        """Do what the value says, and return it."""
        for name, value in request.headers:
            if name == "gate" and value is not None:
                with open(value.decode()) as file:  # noqa: PTH123 - the lock belongs to this descriptor
                    fcntl.flock(file, fcntl.LOCK_SH)
        told = request.json()
        if "reject" in told:
            raise Rejected(told["reject"], "it cannot be done")
        if "doubt" in told:
            raise InDoubt("nobody knows")
        return told.get("answer")


if "booked" in _TOPICS:

    @handler(
        topic=_TOPICS["booked"],
        effect="transactional",
        outcome_topic=_outcomes_of(_TOPICS["booked"]),
    )
    def booked(request: Request) -> str:
        """Finish in the child's own transaction."""
        return request.request_id


if "listening" in _TOPICS:

    @handler(topic=_TOPICS["listening"], effect="marked")
    def listening(request: Request) -> Any:
        """Take the outcomes of `telling` as requests of its own."""
        line = {"id": request.request_id, "of": request.json()["request_id"]}
        with open(os.environ["TEST_RUNS"] + ".heard", "a") as file:  # noqa: PTH123
            file.write(json.dumps(line) + "\n")
