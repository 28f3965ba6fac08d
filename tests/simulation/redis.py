"""Redis as the status store uses it: hashes, payloads, the due set, heartbeats.

What may be written is judged by the product's own table. The mechanics of the script around it are
said again here; `test_redis.py` compares them with the script.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from feedback.kept import KeptPayload
from feedback.status import BEFORE_CLAIM, State, Stored, Write, judge, may_reopen
from feedback.status_script import MOST_TELLINGS, OUTSPOKEN, PUT_BACK, STAYS
from feedback.statuses import (
    Answer,
    Refused,
    Replaced,
    Status,
    StatusWrite,
    refusals_of,
    status_of,
)
from tests.simulation.clock import Clock

_CLEARED = ("code", "message", "result", "resend", "by", "due_at")


class OnStatus(Protocol):
    """Told of every write that Redis has answered."""

    def __call__(
        self, before: Mapping[str, str] | None, write: StatusWrite, refused: Refused | None
    ) -> None:
        """Look at one write."""


class RedisServer:
    """One server; it may come back empty.

    Attributes:
        hashes: the request hashes, by request.
        payloads: what a resend needs.
        deadlines: the due set: the time of the next look, by request.
    """

    def __init__(self, clock: Clock, on_status: OnStatus) -> None:
        self._clock = clock
        self._on_status = on_status
        self.hashes: dict[str, dict[str, str]] = {}
        self.payloads: dict[str, KeptPayload] = {}
        self.deadlines: dict[str, int] = {}
        self._heartbeats: dict[str, int] = {}
        self._journal_id: str | None = None
        self._starts = 1

    @property
    def run_id(self) -> str:
        """Another one after each start."""
        return f"run-{self._starts}"

    def come_back_empty(self) -> None:
        """Forget everything."""
        for kept in (self.hashes, self.payloads, self.deadlines, self._heartbeats):
            kept.clear()
        self._journal_id = None
        self._starts += 1

    def write(
        self, writes: Sequence[StatusWrite], look_at: int | None, now_ms: int
    ) -> list[Answer]:
        """Carry out the script, and what the store does to the due set around it."""
        answers = [self._write(one, now_ms) for one in writes]
        for write, refused in zip(writes, refusals_of(answers), strict=True):
            self._schedule(write, refused, look_at, now_ms)
        return answers

    def _schedule(
        self, write: StatusWrite, refused: Refused | None, look_at: int | None, now_ms: int
    ) -> None:
        request_id = write.request_id
        means_open = may_reopen(write.state, resend=write.fields.get("resend") == "1")
        if not means_open:
            self.deadlines.pop(request_id, None)
        elif look_at is not None:
            self.deadlines.setdefault(request_id, look_at)
        if refused is None:
            return
        stands_open = may_reopen(refused.state, resend=refused.resend)
        if stands_open and not means_open:
            self.deadlines[request_id] = now_ms
        elif means_open and not stands_open:
            self.deadlines.pop(request_id, None)

    def _write(self, write: StatusWrite, now_ms: int) -> Answer:
        stands = self.hashes.get(write.request_id)
        before = None if stands is None else dict(stands)
        answer: Replaced | None = None
        tellings: list[str] = []
        if stands is not None:
            refused = self._refusal(stands, write)
            if refused is not None:
                self._on_status(before, write, refused)
                return refused
            is_same = stands["payload_sha256"] == write.payload_sha256
            if is_same and write.state is State.PENDING:
                if write.attempt == int(stands["attempt"]):
                    tellings = stands.get("tellings", stands.get("deadline_at", STAYS)).split()
                    answer = Replaced(b"")
                else:
                    kept = {name: stands[name] for name in PUT_BACK if name in stands}
                    answer = Replaced(json.dumps(kept).encode())
            if not is_same:
                stands = None
                self.payloads.pop(write.request_id, None)
            elif State(stands["status"]) in OUTSPOKEN or stands.get("worker") == "":
                for name in _CLEARED:
                    stands.pop(name, None)
        stands = {} if stands is None else stands
        is_placed = (before is not None and "offset" in before) or write.state in BEFORE_CLAIM
        stands |= {
            "status": str(write.state),
            "attempt": str(write.attempt),
            "payload_sha256": write.payload_sha256,
            "updated_at": str(now_ms),
            **write.fields,
        }
        if write.origin is not None and not is_placed:
            stands |= {**write.origin.fields, **stands}
        if write.generation:
            stands["generation"] = str(write.generation)
        if tellings:
            told = " ".join([*tellings, stands.get("deadline_at", STAYS)])
            stands["tellings"] = told if len(told) <= MOST_TELLINGS else STAYS
        else:
            stands.pop("tellings", None)
            stands.pop("replaced", None)
        self.hashes[write.request_id] = stands
        self._keep_payload(write)
        self._on_status(before, write, None)
        return answer

    def judge(self, stored: Stored, write: Write) -> object:
        """Say the rule; a test leaves a part of it out."""
        return judge(stored, write)

    def _refusal(self, stands: Mapping[str, str], write: StatusWrite) -> Refused | None:
        stored = Stored(
            State(stands["status"]),
            int(stands["attempt"]),
            int(stands.get("generation") or 0),
            stands["payload_sha256"],
            resend=stands.get("resend") == "1",
            worker=stands.get("worker", ""),
        )
        facts = Write(
            write.state,
            write.attempt,
            write.generation,
            write.payload_sha256,
            restore=write.restore,
            held_by=write.held_by,
        )
        reason = self.judge(stored, facts)
        if reason is None:
            return None
        return Refused(
            reason,  # type: ignore[arg-type]
            stored.state,
            stored.attempt,
            stored.generation,
            stored.resend,
        )

    def _keep_payload(self, write: StatusWrite) -> None:
        if write.payload is not None:
            self.payloads[write.request_id] = write.payload
        elif not may_reopen(write.state, resend=write.fields.get("resend") == "1"):
            self.payloads.pop(write.request_id, None)

    def forget(
        self,
        request_id: str,
        attempt: int,
        sha: str,
        deadline_at: int | None,
        replaced: Replaced | None,
    ) -> bool:
        """Take back what was told of a sending that nobody has taken up."""
        found = self.hashes.get(request_id, {})
        facts = ("status", "attempt", "payload_sha256")
        tellings = found.get("tellings", found.get("deadline_at", "")).split()
        is_pending = tuple(found.get(name) for name in facts) == ("PENDING", str(attempt), sha)
        if not is_pending or str(deadline_at) not in tellings:
            return False
        tellings.remove(str(deadline_at))
        before = found.get("replaced") or ("" if replaced is None else replaced.packed.decode())
        if tellings:
            found["tellings"] = " ".join(tellings)
            if before:
                found["replaced"] = before
            if tellings[-1] != STAYS:
                found["deadline_at"] = tellings[-1]
            return False
        if before:
            for name in (*PUT_BACK, "replaced"):
                found.pop(name, None)
            found |= json.loads(before)
            return True
        if attempt > 1 or "generation" in found:
            return False
        for kept in (self.hashes, self.payloads, self.deadlines):
            kept.pop(request_id, None)
        return True

    def read(self, request_id: str) -> Status:
        """Return what a client sees."""
        found = self.hashes.get(request_id, {})
        now = self._clock.true_ms
        alive = {name for name, until in self._heartbeats.items() if until > now}
        return status_of(request_id, found, alive)

    def beat(self, worker_id: str, ttl_ms: int) -> None:
        """Keep a heartbeat."""
        self._heartbeats[worker_id] = self._clock.true_ms + ttl_ms

    def end_heartbeat(self, worker_id: str) -> None:
        """Forget a heartbeat."""
        self._heartbeats.pop(worker_id, None)

    def agree_on_journal(self, journal_id: str) -> str:
        """Keep the journal's id if there is none, and return the one that stands."""
        self._journal_id = self._journal_id or journal_id
        return self._journal_id
