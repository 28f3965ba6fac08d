"""Answers the children of a bench: where a run dies, and for the counterparties that it calls."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from onceward.testing.counterparty import KeyRefused, counterparty_at
from onceward.testing.deaths import Death, JournalOutage


class PointAnswer(StrEnum):
    """What a run does at a point."""

    GO_ON = "go_on"
    DIE = "die"
    HANG = "hang"


class PointDesk:
    """A socket that children ask; one question at a time.

    Args:
        path: of the socket, in a folder of this user.
        lose_journal: called where the journal goes away within a run.

    Attributes:
        ahead: the deaths of the next runs and the outages in them, in order.
        runs, effects: as in a `BenchOutcome`, by request.
    """

    def __init__(self, path: Path, *, lose_journal: Callable[[], None]) -> None:
        self.ahead: deque[Death | JournalOutage] = deque()
        self.runs: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self._lose_journal = lose_journal
        self._one_at_a_time = threading.Lock()
        desk = self

        class Conversation(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = desk.answer(json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Conversation)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="onceward-desk", daemon=True
        )
        self._thread.start()

    def answer(self, asked: dict[str, Any]) -> Any:
        """Return the answer to a question."""
        with self._one_at_a_time:
            match asked["ask"]:
                case "began":
                    self.runs[asked["request_id"]] += 1
                case "effect":
                    self.effects[asked["request_id"]] += 1
                case "point":
                    return self._at(asked["point"])
                case call:
                    return _called(call, asked["place"], asked["key"])
        return None

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _at(self, point: str) -> str:
        if not self.ahead or self.ahead[0].point != point:
            return PointAnswer.GO_ON
        comes = self.ahead.popleft()
        if isinstance(comes, JournalOutage):
            self._lose_journal()
            return PointAnswer.GO_ON
        return PointAnswer.HANG if comes.is_overdue else PointAnswer.DIE


def _called(call: str, place: str, key: str) -> dict[str, Any]:
    """Return the result of a call of a counterparty, or the error that its handler gets."""
    bank = counterparty_at(place)
    if bank is None:
        return {
            "error": f"{place}: a counterparty that the test does not know; "
            "make it at the top of a module"
        }
    try:
        return {"result": getattr(bank, call)(key)}
    except KeyRefused:
        return {"refused": True}
