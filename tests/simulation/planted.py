"""Faults planted into the product, or into the conditions of its SQL: the simulation finds each.

Each is what a tired person might write. None is a copy: a part of the real code is left out, put
before another, or told to look elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.intake.intake import Intake
from consumer.journal import (
    Applied,
    Claim,
    ClaimVerdict,
    JournalState,
    JournalUnavailable,
    OwnRun,
    Refusal,
    Row,
    Takeover,
    ToldRun,
    VerdictKind,
)
from consumer.journal.claims import takeover_rule, verdict
from consumer.journal.claims.claiming import first_row
from consumer.journal.losses import told_rule
from consumer.loop import mapping, told_runs, writing
from consumer.loop.in_flight import InFlight
from consumer.loop.order import key_queues
from consumer.loop.order.key_queues import KeyQueues
from consumer.loop.own_runs import OwnRuns
from consumer.loop.recovery import sweeper
from consumer.loop.settlement import Skipping
from consumer.loop.writing import Writing
from consumer.status import status_messages
from consumer.status.liveness import Liveness
from consumer.status.status_restore import StatusRestore
from feedback import status
from feedback.clock import epoch_ms
from feedback.errors import NotSent, SendUnknown
from feedback.kafka.source import CommitFailed
from feedback.records.envelope import MAX_ATTEMPT, Envelope
from feedback.redis.deadlines import TakenRequests
from feedback.status import DISOWNED, StoredFacts, WriteFacts, holder_after_refusal, judge
from feedback.status import State as Told
from feedback.statuses import Status
from producer_client.resender import resend_plan
from producer_client.sending import send_flow, send_rules
from producer_client.sending.resending import SeenRequest
from producer_client.sending.send_flow import SendFlow
from producer_client.submission import Prepared
from tests.simulation import database, redis
from tests.simulation.database import Database
from tests.simulation.kafka import KafkaServer
from tests.simulation.redis import RedisServer
from tests.simulation.resender import SimulatedDeadlines

Change = tuple[object, str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault.

    Attributes:
        name: as in issue 4, point 7.
        changes: what is replaced: an object's attribute by another function.
    """

    name: str
    changes: tuple[Change, ...]

    def planted(self) -> ExitStack:
        """Return the context in which the product has this fault."""
        stack = ExitStack()
        for owner, name, stand_in in self.changes:
            stack.enter_context(patch.object(owner, name, stand_in))
        return stack


def _buffer_first(self: Intake, source: Any, records: Sequence[Any]) -> None:
    if records:
        self._buffer.put(self._receive(records))
        self._wake()
        self._commit(source, records)


_write = Writing.write


def _hope(
    self: Writing, batch: Any, again: Any, now_s: float, *, skips: Sequence[Skipping] = ()
) -> Applied:
    """Take a claim for granted whose transaction had no answer."""
    try:
        return _write(self, batch, again, now_s, skips=skips)
    except JournalUnavailable:
        hands = self._in_flight
        if again or skips or hands.finishes or hands.effects or hands.refusing:
            raise
        hands.answered(batch)
        claims = [mapping.claim(one) for one in batch]
        me = self._journal._worker_id
        rows = [first_row(one, JournalState.CLAIMED, worker_id=me, now=0) for one in claims]
        verdicts = [
            ClaimVerdict(VerdictKind.RUN, claim, row, "hope")
            for claim, row in zip(claims, rows, strict=True)
        ]
        return Applied(tuple(verdicts), frozenset(), {}, ())


def _any_generation(self: Database, row: Row, generation: int, worker_id: str) -> bool:
    return row.state == JournalState.CLAIMED


def _any_owner(self: Database, row: Row, generation: int, worker_id: str) -> bool:
    return row.generation == generation and row.state == JournalState.CLAIMED


def _one_run_each(row: Row, claimed_at: int | None, worker_id: str) -> bool:
    return False


def _anybody(self: Database, *facts: object) -> bool:
    return True


def _no_effect_at(self: Database, effect_kind: str, now: int) -> int | None:
    return None


def _trusting(row: Row) -> bool:
    return row.effect_kind == EffectKind.TRANSACTIONAL or row.effect_at is None


_after_dead = sweeper.after_dead


def _after_trusted(row: Row, handler: Any) -> Any:
    kind = EffectKind.MARKED if row.effect_kind == EffectKind.EXTERNAL else row.effect_kind
    return _after_dead(row._replace(effect_kind=kind), handler)


def _lives_by_own_clock(self: Database, worker_id: str) -> bool:
    return self.leases.get(worker_id, 0) > epoch_ms()


def _at_once(self: Liveness, now_s: float) -> bool:
    return self.lease_holds(now_s)


def _without_attempts(self: RedisServer, stored: StoredFacts, write: WriteFacts) -> object:
    return judge(stored, replace(write, attempt=max(write.attempt, stored.attempt)))


def _taken_as_failed(self: Intake, source: Any, records: Sequence[Any]) -> dict[Any, int]:
    wanted = {(one.topic, one.partition): one.offset + 1 for one in records}
    try:
        source.commit(wanted)
    except CommitFailed:
        return {}
    return wanted


def _forget(self: Intake, source: Any, dropped: Sequence[Any]) -> None:
    """Neither tell that they were given up nor read them again: Kafka will bring them."""


def _say_nothing(self: StatusRestore, rows: Sequence[Row]) -> None:
    """Tell nobody."""


def _reopens_any(state: Told, generation: int) -> int:
    return MAX_ATTEMPT


_forget_sent = SendFlow.forget


async def _forgets_for_certain(self: SendFlow, one: Prepared) -> bool:
    await _forget_sent(self, one)
    return True


def _as_it_is(one: Prepared, error: NotSent | SendUnknown | None) -> NotSent | SendUnknown | None:
    return error


def _looks_at_nothing(self: OwnRuns, now_s: float) -> bool:
    return False


def _nobody_goes_first(self: Database, claim: Claim) -> None:
    """Look for no other request of its key."""


def _nothing_forgotten(self: Database) -> Mapping[Any, Any]:
    """Keep nothing of what was pruned."""
    return {}


def _same_payload(one: Claim | Refusal, row: Row) -> bool:
    return row.payload_sha256 == one.payload_sha256


def _nobody_gives_up(stored: StoredFacts, write: WriteFacts) -> str | None:
    return None


def _nobody_has_it(stored: StoredFacts, write: WriteFacts) -> str | None:
    return None if holder_after_refusal(stored, write) is None else ""


def _as_given_up_too(*states: Told) -> Callable[[StoredFacts, WriteFacts], str | None]:
    def named(stored: StoredFacts, write: WriteFacts) -> str | None:
        is_beside = stored.state is Told.PENDING and write.state in states and write.held_by is None
        if is_beside and stored.worker:
            return stored.worker + DISOWNED
        return holder_after_refusal(stored, write)

    return named


def _other_payload(stored: StoredFacts, write: WriteFacts) -> bool:
    return write.payload_sha256 != stored.payload_sha256


def _any_request(one: Takeover, row: Row) -> bool:
    return True


_seen = resend_plan._seen


def _whenever_it_was_told(status: Status, taken: TakenRequests) -> SeenRequest:
    return replace(_seen(status, taken), is_from_before=False)


def _whenever_it_was_written(
    self: RedisServer, stored: StoredFacts, stands: Mapping[str, str]
) -> bool:
    return False


def _as_declared_now(claimed: str | None, declared: InDoubtPolicy) -> InDoubtPolicy:
    return declared


def _look_once(
    self: SimulatedDeadlines,
    taken: TakenRequests,
    looks_s: Mapping[str, float],
    *,
    fixed: bool = False,
) -> None:
    for request_id in looks_s:
        self._world.redis.deadlines.pop(request_id, None)


def _not_again(self: InFlight, batch: Iterable[Delivery]) -> Iterator[OwnRun]:
    return iter(())


_as_ended = told_runs.as_ended


def _as_it_was_told(told: ToldRun, *, may_have_acted: bool) -> OwnRun:
    return _as_ended(told, may_have_acted=False)


_add = KeyQueues._add


def _as_it_was_resent(self: KeyQueues, queue: Any, one: Delivery) -> None:
    _add(self, queue, one)
    name = key_queues._name(one)
    known = queue.waiting[name]
    if known.envelope.attempt == one.envelope.attempt:
        queue.waiting[name] = known._replace(envelope=one.envelope)


_next_envelope = send_rules.next_envelope


def _as_if_sent_first(request_id: str, known: Status, deadline_at: int | None) -> Envelope:
    return _next_envelope(request_id, known, deadline_at)._replace(first=None)


_catch_up_with = told_rule.catch_up_with


def _one_above(one: ToldRun, row: Row | None, *, owner_is_gone: bool = False) -> ToldRun | None:
    told = _catch_up_with(one, row, owner_is_gone=owner_is_gone)
    return None if told is None else told._replace(generation=told.generation + 1)


def _told_without_time(one: Delivery) -> dict[str, str]:
    return {}


def _nobody_knows(row: Row, later: Claim, generation: int, *, is_raised: bool = False) -> None:
    """Say nothing of what is written over: it passes for a run of its own."""


_is_pruned = Database.is_pruned


def _by_the_last_record(self: Database, one: ToldRun, row: Row | None) -> bool:
    """Judge what was told by the place of the record that was read last, and only without a row."""
    told = one._replace(claim=one.claim._replace(first=None))
    return row is None and _is_pruned(self, told, row)


def _believes_the_end(one: OwnRun) -> bool:
    return False


def _any_record(self: KafkaServer, record: Any) -> bool:
    return True


PLANTED = (
    Planted("dispatch before commit", ((Intake, "_take", _buffer_first),)),
    Planted("dispatch before the claim is committed", ((Writing, "write", _hope),)),
    Planted("generation check left out of finish", ((Database, "is_claimed", _any_generation),)),
    Planted("effect() without its condition", ((Database, "may_enter", _anybody),)),
    Planted(
        "a sweep that trusts an empty effect_at of a plain external handler",
        (
            (Database, "effect_at_claim", _no_effect_at),
            (takeover_rule, "effect_excluded", _trusting),
            (database, "effect_excluded", _trusting),
            (sweeper, "after_dead", _after_trusted),
        ),
    ),
    Planted("published_at set without its condition", ((Database, "is_told", _anybody),)),
    Planted(
        "lease compared by the worker's own clock", ((Database, "lives", _lives_by_own_clock),)
    ),
    Planted("sweep right after the database's return", ((Liveness, "may_sweep", _at_once),)),
    Planted("status script without the attempt rule", ((RedisServer, "judge", _without_attempts),)),
    Planted(
        "commit timeout taken as failure and forgotten",
        ((Intake, "_commit", _taken_as_failed), (Intake, "_drop", _forget)),
    ),
)
# Beside the ten of issue 4.
ALSO_PLANTED = (
    Planted(
        "a resend that was on its way reopens a failure", ((send_rules, "reopens", _reopens_any),)
    ),
    Planted("NotSent of what a resender has", ((SendFlow, "forget", _forgets_for_certain),)),
    Planted("NotSent of what was sent before", ((send_flow, "certain", _as_it_is),)),
    Planted("nobody looks for lost runs", ((OwnRuns, "look_if_due", _looks_at_nothing),)),
    Planted(
        "another topic's request under an id is taken for this one",
        (
            (verdict, "is_same_request", _same_payload),
            (status, "is_other_request", _other_payload),
            (redis, "is_other_request", _other_payload),
        ),
    ),
    Planted(
        "NotSent of what an older Redis brings back",
        (
            (resend_plan, "_seen", _whenever_it_was_told),
            (RedisServer, "is_from_before", _whenever_it_was_written),
        ),
    ),
    Planted("what was pruned is new", ((Database, "marks", _nothing_forgotten),)),
    Planted("a key of another worker is free", ((Database, "holder", _nobody_goes_first),)),
    Planted(
        "the policy of a dead run is its sweeper's",
        ((sweeper, "policy_of_dead", _as_declared_now),),
    ),
    Planted("what is put back is a second run", ((database, "why_followed", _nobody_knows),)),
    Planted("aborted transactions are read", ((KafkaServer, "counts", _any_record),)),
    Planted("open transactions are read", ((KafkaServer, "is_stable", _any_record),)),
    Planted("a skip for what has not succeeded", ((Database, "has_succeeded", _anybody),)),
    Planted(
        "what was looked at once leaves the due set", ((SimulatedDeadlines, "settle", _look_once),)
    ),
    Planted("an empty Redis is not told again", ((StatusRestore, "_tell_rows", _say_nothing),)),
    Planted(
        "nobody has what its worker gives up beside a resend",
        ((redis, "holder_after_refusal", _nobody_has_it),),
    ),
    Planted(
        "who accepts a request beside a resend takes it from its worker",
        ((redis, "holder_after_refusal", _as_given_up_too(Told.ACCEPTED)),),
    ),
    Planted(
        "who runs a request beside a resend takes it from its worker",
        ((redis, "holder_after_refusal", _as_given_up_too(Told.RUNNING, Told.RETRYING)),),
    ),
)
REPEATS_NOTHING = Planted(
    "a resend does not say which record it repeats",
    (
        (send_rules, "next_envelope", _as_if_sent_first),
        (send_flow, "next_envelope", _as_if_sent_first),
    ),
)
TOLD_WITHOUT_TIME = Planted(
    "nobody is told the time of a record that names no deadline",
    ((status_messages, "_first", _told_without_time),),
)
# By the seed of a schedule, and the promise that it breaks there. All but the first are found where
# the journal has forgotten something: so the excuses for that do not hide them.
PLANTED_IN = (
    (
        Planted(
            "what is given up beside a resend is not noted",
            ((redis, "holder_after_refusal", _nobody_gives_up),),
        ),
        9002802,
        "a worker that lives has what it has accepted",
    ),
    (
        Planted("a run that is over is granted again", ((InFlight, "granted_again", _not_again),)),
        13650,
        "what has ended stays",
    ),
    (
        Planted(
            "a run that acted ends as never claimed", ((writing, "as_ended", _as_it_was_told),)
        ),
        13762,
        "no wrong outcome",
    ),
    (
        # By itself it harms nobody: the resend says which record it repeats.
        Planted(
            "a resend names the deadline of what waits, and not which record it repeats",
            ((KeyQueues, "_add", _as_it_was_resent), *REPEATS_NOTHING.changes),
        ),
        700083,
        "what was pruned never runs again",
    ),
    (REPEATS_NOTHING, 747248, "no wrong outcome"),
    (
        Planted(
            "what was pruned goes on as an older Redis says",
            ((Database, "is_pruned", _by_the_last_record),),
        ),
        5202413,
        "no wrong outcome",
    ),
    (
        Planted(
            "a run that acted has the end of who knew of no claim",
            ((verdict, "may_have_acted", _believes_the_end),),
        ),
        736330,
        "no wrong outcome",
    ),
    (
        Planted(
            "a run goes on as another request of its id",
            ((takeover_rule, "is_same_request", _any_request),),
        ),
        702931,
        "another payload never runs",
    ),
    (
        Planted(
            "an end that was told stands as that of a later run",
            ((database, "catch_up_with", _one_above),),
        ),
        2400541,
        "what has ended stays",
    ),
    (TOLD_WITHOUT_TIME, 747248, "no wrong outcome"),
    (
        Planted(
            "a finish ends the claim of whoever has it", ((Database, "is_claimed", _any_owner),)
        ),
        736130,
        "an end tells of its own run",
    ),
    (
        Planted(
            "of two runs of a generation one speaks for both",
            ((verdict, "is_claimed_anew", _one_run_each),),
        ),
        736130,
        "an end tells of its own run",
    ),
    (
        Planted(
            "who stood still past the deadline begins an effect",
            ((Database, "is_in_time", _anybody),),
        ),
        9_009_432,
        "told that nothing happened",
    ),
)
# The claim of a plain external handler says nothing of its effect: by itself this harms nobody.
HARMLESS = Planted("effect_at left empty", ((Database, "effect_at_claim", _no_effect_at),))
