"""The predicate is asked, in a child and just before its handler would be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.handlers.checks.collapse import is_coroutine
from consumer.handlers.declaration import Handler
from consumer.handlers.request import Request
from consumer.pool.job import Job, request_of_job
from consumer.pool.outcome import (
    HANDLER_ERROR,
    Outcome,
    declared_outcome,
    judge_error,
    raised_by,
    refuse_unstarted,
)
from feedback.logs import EventLog
from feedback.status import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

NOT_APPLICABLE = "NOT_APPLICABLE"
_SAID_NO = Outcome(State.SKIPPED, code=NOT_APPLICABLE)

_log = EventLog("onceward.child")


def refusal(
    job: Job, handler: Handler, *, group: str, connection: Connection | None = None
) -> Outcome | None:
    """Return how a job ends that is not to run; None when its handler is to be called.

    Args:
        group: the consumer group.
        connection: the open transaction of a transactional handler; the predicate may read by it.
    """
    if handler.collapse is None or not job.collapses:
        return None
    request = _request(job, handler, group, connection)
    try:
        said = handler.collapse(request)
        refuse_unstarted(said)
        return None if said else _SAID_NO
    except BaseException as error:
        return _failed(error, job=job, handler=handler)


async def refusal_coroutine(job: Job, handler: Handler, *, group: str) -> Outcome | None:
    """Return the same for a handler that is a coroutine, whose predicate may be one as well.

    A plain one is asked in a thread: on the loop it would hold up the other runs of its child.
    """
    if handler.collapse is None or not job.collapses:
        return None
    try:
        if not is_coroutine(handler.collapse):
            import asyncio  # a child without coroutines does without it

            return await asyncio.to_thread(refusal, job, handler, group=group)
        return None if await handler.collapse(_request(job, handler, group, None)) else _SAID_NO
    except BaseException as error:
        return _failed(error, job=job, handler=handler)


def _request(job: Job, handler: Handler, group: str, connection: Connection | None) -> Request:
    # Without a gate: it decides, and does not act.
    return request_of_job(job, handler, group=group, connection=connection)


def _failed(error: BaseException, *, job: Job, handler: Handler) -> Outcome:
    """Return the failure of a request whose handler was not called."""
    told = declared_outcome(error, handler=handler)
    if told is None:
        _log.raised(
            "collapse.raised",
            error,
            request_id=job.request_id,
            generation=job.generation,
            topic=job.topic,
            handler=handler.name,
        )
    outcome = judge_error(error, handler=handler, effect_granted=False)
    raised = raised_by(error)
    if outcome.state is State.IN_DOUBT and told is None:
        # Of a plain external handler: it never began, so there is nothing to doubt.
        return Outcome(State.FAILED, HANDLER_ERROR, outcome.message, raised=raised)
    if outcome.state is not State.FAILED:
        return outcome
    return Outcome(
        State.FAILED, outcome.code, outcome.message, resend=outcome.resend, raised=raised
    )
