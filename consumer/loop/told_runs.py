"""The statuses of requests that are about to run again: the journal may have lost those runs.

A database may lose commits that it acknowledged. A status is told after its commit, so Redis may
know of a later run than the journal: one that may have had its effect, and that no row will end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery
from consumer.journal import Claim, Finish, JournalState, OwnRun, Row, Run, ToldRun
from consumer.journal.records import END_LOST
from consumer.loop import mapping
from consumer.loop.dead_ends import (
    is_about,
    result_text,
    storable_text,
    told_claim,
    was_never_claimed,
    why_doubted,
)
from feedback import status
from feedback.errors import RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.split_batch import read_apart
from feedback.status import DISOWNED
from feedback.statuses import Status

log = EventLog("onceward.worker")

_FAILURE_LOST = "the database has lost how its run failed; its client has asked for it again"
_OPEN = (status.State.RUNNING, status.State.RETRYING)
_ASKED_AGAIN = (status.State.PENDING, status.State.ACCEPTED, status.State.LOST)


class ToldStatuses(Protocol):
    """The statuses in Redis, and which workers live."""

    def read_many(self, request_ids: Sequence[str]) -> list[Status]: ...

    def alive(self, worker_ids: Iterable[str]) -> set[str]: ...


class ToldRuns:
    """Reads statuses; nothing while Redis is away.

    Args:
        statuses: in Redis; None where the journal forgets on purpose, and loses nothing.
        redis_away: whether asking Redis would only cost time.
    """

    def __init__(self, statuses: ToldStatuses | None, redis_away: Callable[[], bool]) -> None:
        self._statuses = statuses
        self._redis_away = redis_away

    def of(self, batch: Sequence[Delivery]) -> list[ToldRun]:
        """Return the latest runs of requests that are delivered again."""
        return self._of([mapping.claim(one) for one in batch])

    def of_rows(self, rows: Sequence[Row]) -> list[ToldRun]:
        """Return the runs of requests that have these rows."""
        return self._of([mapping.claim_of_row(row) for row in rows])

    def _of(self, claims: Sequence[Claim]) -> list[ToldRun]:
        if self._statuses is None or not claims or self._redis_away():
            return []
        try:
            found = read_statuses(self._statuses, [one.request_id for one in claims])
            told = found.values()
            running = {one.worker for one in told if one.state in _OPEN and one.worker}
            alive = self._statuses.alive(running) if running else set()
        except RedisUnavailable as error:
            log.debug("statuses.unread", reason=str(error))
            return []
        known = [one for one in claims if one.request_id in found]
        made = (told_run(one, found[one.request_id], alive=alive) for one in known)
        return [one for one in made if one is not None]


def read_statuses(statuses: ToldStatuses, request_ids: Sequence[str]) -> dict[str, Status]:
    """Return the latest runs of these requests by their statuses, unreadable ones left out.

    One unreadable status must not hide all others.

    Raises:
        RedisUnavailable: Redis did not answer.
    """
    unreadable: list[str] = []
    found = {one.request_id: one for one in read_apart(statuses, request_ids, unreadable)}
    if unreadable:
        log.warning("statuses.unreadable", count=len(unreadable), request_id=unreadable[0])
    return found


def told_run(claim: Claim, told: Status, *, alive: Collection[str]) -> ToldRun | None:
    """Return the latest run that a client was told of; None when there is none. Pure.

    A final status is how its run ended; but of a transactional success that the database has lost
    the effect is lost as well, so it has no end. PENDING after a run stands for a failure that its
    client was told of, and asked to run again. The status also says how the run was declared.

    Args:
        claim: of the same request, as it is delivered or as its row says.
        alive: the workers that have a heartbeat.
    """
    is_same = is_about(told, topic=claim.topic, sha256=claim.payload_sha256)
    if told.generation < 1 or not is_same:
        return None
    attempt = told.attempt - (told.state in _ASKED_AGAIN)
    deadline_at = told.deadline_at or claim.deadline_at
    first = told.first_place or claim.first
    claim = told_claim(claim, told)._replace(
        attempt=max(1, attempt), deadline_at=deadline_at, first=first
    )
    owner = (storable_text(told.worker) or "").removesuffix(DISOWNED)
    run = ToldRun(claim, told.generation, JournalState.CLAIMED, owner + DISOWNED)
    if told.state in _ASKED_AGAIN:
        return run._replace(
            state=JournalState.FAILED,
            owner=owner,
            code=END_LOST,
            message=_FAILURE_LOST,
            resend=True,
        )
    if told.state in _OPEN:
        return run._replace(owner=owner) if owner in alive else run
    if claim.effect_kind == EffectKind.TRANSACTIONAL and told.state is status.State.SUCCEEDED:
        return run
    return run._replace(
        state=JournalState(told.state.value),
        owner=owner,
        code=storable_text(told.code),
        message=storable_text(told.message),
        result=result_text(told.result),
        resend=told.resend,
        by=storable_text(told.by),
    )


def leads(told: ToldRun | None, run: Run) -> bool:
    """Whether a client was told more of a request than that this run of ours runs. Pure."""
    if told is None or told.generation < run[1]:
        return False
    return told.generation > run[1] or told.state != JournalState.CLAIMED


def as_ended(told: ToldRun, *, may_have_acted: bool) -> OwnRun:
    """Return a run of ours as it has ended by its status. Pure.

    Args:
        may_have_acted: whether it may have had its effect. Then it is in doubt where its client was
            told that it was never claimed. It does not go on: that was final.
    """
    if may_have_acted and was_never_claimed(told.state, told.claim.claimed_at):
        why = why_doubted(told.state)
        end = mapping.in_doubt(told.run, END_LOST, why, claim=told.claim)
        return OwnRun(told.claim, told.generation, entered=True, finish=end)
    end = Finish(
        request_id=told.request_id,
        generation=told.generation,
        state=told.state.value,
        code=told.code,
        message=told.message,
        result=told.result,
        resend=told.resend,
        claim=told.claim,
    )
    return OwnRun(told.claim, told.generation, entered=False, finish=end)
