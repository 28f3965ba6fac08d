"""Redis as the status store uses it: hashes, payloads, the due set, heartbeats.

What may be written is judged by the product's own table. The mechanics of the script around it are
said again here; `test_redis.py` compares them with the script.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from feedback.records.envelope import Record, decode_headers, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.memory import RedisMemory
from feedback.redis.status_script import MOST_TELLINGS, OUTSPOKEN, PUT_BACK, STAYS
from feedback.status import (
    BEFORE_CLAIM,
    FINAL,
    RefusalReason,
    State,
    StoredFacts,
    WriteFacts,
    holder_after_refusal,
    is_other_request,
    judge,
    may_be_taken_back,
    may_reopen,
)
from feedback.statuses import (
    Refused,
    Replaced,
    Status,
    StatusWrite,
    WriteAnswer,
    refusals_of,
    status_of,
)
from tests.simulation.clock import Clock

MOST_WRITES = 40
_CLEARED = ("code", "message", "result", "resend", "by", "due_at")


class OnStatus(Protocol):
    """Told of every write that Redis has answered."""

    def __call__(
        self, before: Mapping[str, str] | None, write: StatusWrite, refused: Refused | None
    ) -> None:
        """Look at one write."""


class _Past(NamedTuple):
    """What stood here before a write."""

    hashes: dict[str, dict[str, str]]
    payloads: dict[str, StoredPayload]
    deadlines: dict[str, int]


class RedisServer:
    """One server; it may come back empty.

    Attributes:
        hashes: the request hashes, by request.
        payloads: what a resend needs.
        deadlines: the due set: the time of the next look, by request.
        went_back: it has come back older than it was.
        leased: those that a resender has taken and not settled.
        unlooked: those that the due set has lost, emptied or come back older, and that nobody has
            put there since: a worker that goes on with one tells its status, and asks for no look.
    """

    def __init__(self, clock: Clock, on_status: OnStatus) -> None:
        self._clock = clock
        self._on_status = on_status
        self.hashes: dict[str, dict[str, str]] = {}
        self.payloads: dict[str, StoredPayload] = {}
        self.deadlines: dict[str, int] = {}
        self.leased: set[str] = set()
        self.unlooked: set[str] = set()
        self._heartbeats: dict[str, int] = {}
        self._journal_id: str | None = None
        self._contents: str | None = None
        self._words = 0
        self._witness: tuple[str, int] | None = None
        self._starts = 1
        self.went_back = False
        self._pasts: deque[_Past] = deque(maxlen=MOST_WRITES)

    @property
    def run_id(self) -> str:
        """Another one after each start."""
        return f"run-{self._starts}"

    @property
    def contents(self) -> str:
        """Another text once it has lost them; as heartbeats tell it."""
        return f"{self.run_id}.{self._contents}"

    def come_back_empty(self) -> None:
        """Forget everything, in a new start."""
        self.flush()
        self._starts += 1

    def flush(self) -> None:
        """Forget everything, and go on: FLUSHALL."""
        self.unlooked |= self.deadlines.keys()
        for kept in (self.hashes, self.payloads, self.deadlines, self._heartbeats):
            kept.clear()
        self.leased.clear()
        self._journal_id = self._contents = self._witness = None

    def go_back(self, writes: int) -> None:
        """Come back as of so many writes ago: an older snapshot, or a replica that lagged."""
        self.went_back = True
        due = self.deadlines.keys()
        if self._pasts:
            past = self._pasts[-min(writes, len(self._pasts))]
            self.hashes = {name: dict(fields) for name, fields in past.hashes.items()}
            self.payloads, self.deadlines = dict(past.payloads), dict(past.deadlines)
        self.unlooked |= due - self.deadlines.keys()
        self._pasts.clear()
        self._starts += 1

    def _remember(self) -> None:
        hashes = {name: dict(fields) for name, fields in self.hashes.items()}
        self._pasts.append(_Past(hashes, dict(self.payloads), dict(self.deadlines)))

    def write(self, writes: Sequence[StatusWrite], look_at: int | None) -> list[WriteAnswer]:
        """Carry out the script."""
        self._remember()
        answers = [self._write(one) for one in writes]
        for write, refused in zip(writes, refusals_of(answers), strict=True):
            self._schedule(write, refused, look_at)
        return answers

    def _schedule(self, write: StatusWrite, refused: Refused | None, look_at: int | None) -> None:
        if write.state in FINAL:
            if refused is None:
                self.deadlines.pop(write.request_id, None)
            return
        stands_open = refused is None or not (refused.state in FINAL or refused.nothing_stands)
        if stands_open and look_at is not None:
            self.unlooked.discard(write.request_id)
            self.deadlines.setdefault(write.request_id, look_at)

    def _write(self, write: StatusWrite) -> WriteAnswer:
        stands = self.hashes.get(write.request_id)
        before = None if stands is None else dict(stands)
        answer: Replaced | None = None
        tellings: list[str] = []
        refused = self._refusal(stands, write)
        if refused is not None:
            if stands is not None and refused.reason is RefusalReason.ATTEMPT:
                worker = holder_after_refusal(*_facts(stands, write))
                if worker is not None:
                    self.hashes[write.request_id]["worker"] = worker
            self._on_status(before, write, refused)
            return refused
        if stands is not None:
            is_same = not is_other_request(*_facts(stands, write))
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
            "updated_at": str(self._clock.true_ms),
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
        if write.state is State.PENDING:
            stands["told_in"] = self.run_id
        else:
            stands.pop("told_in", None)
        self.hashes[write.request_id] = stands
        self._keep_payload(write)
        self._on_status(before, write, None)
        return answer

    def judge(self, stored: StoredFacts, write: WriteFacts) -> object:
        """Say the rule; a test leaves a part of it out."""
        return judge(stored, write)

    def is_from_before(self, stored: StoredFacts, stands: Mapping[str, str]) -> bool:
        """Say whether another start was told, and it may have been taken back since."""
        deadline_at = stands.get("deadline_at")
        left_s = None if deadline_at is None else (int(deadline_at) - self._clock.true_ms) / 1000
        return stands.get("told_in", self.run_id) != self.run_id and may_be_taken_back(
            stored.state,
            stored.attempt,
            is_asked_anew=stored.generation > 0,
            left_s=left_s,
        )

    def mark_sent(self, record: Record) -> bool:
        """Note that Kafka has the record of a PENDING that another start was told."""
        sent = decode_headers(record)
        stands = self.hashes.get(sent.request_id, {})
        deadline = "" if sent.deadline_at is None else str(sent.deadline_at)
        is_of = (
            stands.get("status") == State.PENDING
            and stands.get("told_in", self.run_id) != self.run_id
            and int(stands["attempt"]) == sent.attempt
            and stands.get("deadline_at", "") == deadline
            and stands.get("topic") == record.topic
            and stands["payload_sha256"] == payload_sha256(record.key, record.value)
            and int(stands.get("generation", 0)) <= (sent.reopens or 0)
        )
        if is_of:
            stands["told_in"] = self.run_id
        return is_of

    def _refusal(self, stands: Mapping[str, str] | None, write: StatusWrite) -> Refused | None:
        if stands is None:
            is_kept = write.request_id in self.payloads
            gone = judge(None, _asked(write), is_kept=is_kept)
            return None if gone is None else Refused(gone, State.UNKNOWN, 0, 0, False)
        stored, facts = _facts(stands, write)
        reason = self.judge(stored, facts)
        if reason is None and write.follows is not None and self.is_from_before(stored, stands):
            reason = RefusalReason.TAKEN_BACK
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
        self._remember()
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
            stood = json.loads(before)
            if stood["status"] == State.FAILED and request_id in self.leased:
                return False
            for name in (*PUT_BACK, "replaced"):
                found.pop(name, None)
            found |= stood
            return True
        if attempt > 1 or "generation" in found or request_id in self.leased:
            return False
        for kept in (self.hashes, self.payloads, self.deadlines):
            kept.pop(request_id, None)
        return True

    def read(self, request_id: str) -> Status:
        """Return what a client sees."""
        return status_of(request_id, self.hashes.get(request_id, {}), self.alive)

    @property
    def alive(self) -> set[str]:
        """The workers that have a heartbeat."""
        now = self._clock.true_ms
        return {name for name, until in self._heartbeats.items() if until > now}

    def beat(self, worker_id: str, ttl_ms: int) -> None:
        """Keep a heartbeat."""
        self._heartbeats[worker_id] = self._clock.true_ms + ttl_ms

    def end_heartbeat(self, worker_id: str) -> None:
        """Forget a heartbeat."""
        self._heartbeats.pop(worker_id, None)

    def memory(self, request_id: str | None) -> RedisMemory:
        """Return how far back it remembers."""
        seen, since_ms = self._witness or ("", 0)
        is_known = request_id is None or request_id in self.hashes
        return RedisMemory(seen, since_ms, self.run_id, self._clock.true_ms, is_known)

    def agree_on_journal(self, journal_id: str) -> str:
        """Keep the journal's id if there is none, and return the one that stands."""
        self._journal_id = self._journal_id or journal_id
        return self._journal_id

    def agree_on_contents(self, journal_id: str, *, is_first: bool = False) -> str:
        """Return the word that stands as long as the journal's id does; another one if none is.
        Beside it stands since when nothing was forgotten."""
        is_new = self._journal_id is None or self._contents is None
        if is_new or self._witness is None or self._witness[0] != self.run_id:
            self._witness = self.run_id, 0 if is_new and is_first else self._clock.true_ms
        if self._contents is None or is_new:
            self._words += 1
            self._journal_id, self._contents = journal_id, f"contents-{self._words}"
        return self._contents


def _facts(stands: Mapping[str, str], write: StatusWrite) -> tuple[StoredFacts, WriteFacts]:
    stored = StoredFacts(
        State(stands["status"]),
        int(stands["attempt"]),
        int(stands.get("generation") or 0),
        stands["payload_sha256"],
        resend=stands.get("resend") == "1",
        worker=stands.get("worker", ""),
        topic=stands.get("topic", ""),
    )
    return stored, _asked(write)


def _asked(write: StatusWrite) -> WriteFacts:
    return WriteFacts(
        write.state,
        write.attempt,
        write.generation,
        write.payload_sha256,
        restore=write.restore,
        held_by=write.held_by,
        reopens=write.reopens,
        topic=write.topic,
        follows=write.follows,
    )
