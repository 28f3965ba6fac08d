"""Handlers of the workers under test that fail, beside those of `worker_handlers`."""

from __future__ import annotations

import fcntl
import json
import os

from consumer import Rejected, Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))


class BankDown(Exception):
    """What the bank's library raises."""


if "failing" in _TOPICS:

    @handler(topic=_TOPICS["failing"], effect="marked")
    def failing(request: Request) -> None:
        """Fail before the effect, whatever the value is, with a text that no compression helps."""
        _wait_at(request)
        raise BankDown(os.urandom(12_000).hex()) from OSError("no route")


if "refusing" in _TOPICS:

    @handler(topic=_TOPICS["refusing"])
    def refusing(request: Request) -> None:
        """Say that it cannot be done."""
        _wait_at(request)
        raise Rejected("CARD_EXPIRED", "the card has expired")


def _wait_at(request: Request) -> None:
    gates = [value or b"" for name, value in request.headers if name == "gate"]
    for gate in gates:
        with open(gate.decode()) as file:  # noqa: PTH123 - the lock belongs to this descriptor
            fcntl.flock(file, fcntl.LOCK_SH)
