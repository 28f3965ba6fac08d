"""One run: the handler or its query is called, and its return or error becomes an outcome."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.effect_gate import EffectGate
from consumer.handlers.registry import HandlerRegistry
from consumer.pool.blocking_retries import BlockingRetries
from consumer.pool.effects import Effects
from consumer.pool.job import Job, PoolSettings, request_of_job
from consumer.pool.outcome import (
    HANDLER_ERROR,
    JOURNAL_UNAVAILABLE,
    STALE,
    Outcome,
    declared_outcome,
    judge_error,
    judge_return,
    raised_by,
    refuse_unstarted,
)
from consumer.pool.predicates import refusal, refusal_coroutine
from consumer.pool.queries import Queries
from feedback import logs
from feedback.logs import EventLog
from feedback.status import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = EventLog("onceward.child")


class Runs:
    """Runs jobs with the handlers of this child.

    Args:
        registry: the handlers.
        settings: the group and the longest result.
        effects: where marked handlers ask.
    """

    def __init__(
        self, *, registry: HandlerRegistry, settings: PoolSettings, effects: Effects
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._effects = effects
        self._queries = Queries(registry=registry, settings=settings)
        self._transactional = None
        if any(h.effect is EffectKind.TRANSACTIONAL for h in registry.handlers):
            # SQLAlchemy: memory that other children do not need.
            from consumer.pool.transactional import TransactionalRuns

            self._transactional = TransactionalRuns(settings)

    def close(self) -> None:
        """Close the connections that no run uses; a child that ends has no need of it."""
        if self._transactional is not None:
            self._transactional.close()

    def is_coroutine(self, job: Job) -> bool:
        """Tell whether the function that the job calls belongs on the event loop."""
        if job.asks:
            return self._queries.is_coroutine(job)
        handler = self._registry.for_topic(job.topic)
        return handler is not None and handler.is_coroutine

    def run(self, number: int, job: Job) -> Outcome:
        """Call a plain handler; it may raise anything."""
        with _log_context(job):
            return self._run(number, job)

    def _run(self, number: int, job: Job) -> Outcome:
        if job.asks:
            return self._queries.ask(job)
        handler = self._registry.for_topic(job.topic)
        if handler is None:
            return _without_handler(job)
        tries = BlockingRetries(handler, job.deadline_at)
        while True:
            outcome = self._try(number, job, handler)
            pause_s = tries.pause_s() if _may_try_again(outcome) else None
            if pause_s is None:
                return outcome
            time.sleep(pause_s)

    async def run_coroutine(self, number: int, job: Job) -> Outcome:
        """Await a coroutine handler; it may raise anything, cancellation included."""
        with _log_context(job):
            return await self._run_coroutine(number, job)

    async def _run_coroutine(self, number: int, job: Job) -> Outcome:
        if job.asks:
            return await self._queries.ask_coroutine(job)
        handler = self._registry.for_topic(job.topic)
        if handler is None:
            return _without_handler(job)
        tries = BlockingRetries(handler, job.deadline_at)
        while True:
            outcome = await self._await_once(number, job, handler)
            pause_s = tries.pause_s() if _may_try_again(outcome) else None
            if pause_s is None:
                return outcome
            import asyncio  # the loop that runs this has it already

            try:
                await asyncio.sleep(pause_s)
            except asyncio.CancelledError:
                return outcome  # by the handler's own hand: nobody else cancels it

    def _try(self, number: int, job: Job, handler: Handler) -> Outcome:
        if handler.effect is EffectKind.TRANSACTIONAL and self._transactional is not None:
            # A transaction of its own: the writes of an earlier try are rolled back.
            return self._transactional.run(job, partial(self._run_once, number, job, handler))
        return self._run_once(number, job, handler, None)

    async def _await_once(self, number: int, job: Job, handler: Handler) -> Outcome:
        refused = await refusal_coroutine(job, handler, group=self._settings.group)
        if refused is not None:
            return refused
        gate = self._gate(number, job, handler)
        request = request_of_job(job, handler, group=self._settings.group, gate=gate)
        try:
            value = await handler.function(request)
            return self._returned(value, gate)
        except BaseException as error:
            return _raised(error, job=job, handler=handler, gate=gate)
        finally:
            if gate is not None:
                gate.close()

    def _run_once(
        self, number: int, job: Job, handler: Handler, connection: Connection | None
    ) -> Outcome:
        group = self._settings.group
        refused = refusal(job, handler, group=group, connection=connection)
        if refused is not None:
            return refused
        gate = self._gate(number, job, handler)
        request = request_of_job(job, handler, group=group, gate=gate, connection=connection)
        try:
            value = handler.function(request)
            if value is not None:
                refuse_unstarted(value)
            return self._returned(value, gate)
        except BaseException as error:
            return _raised(error, job=job, handler=handler, gate=gate)
        finally:
            if gate is not None:
                gate.close()

    def _gate(self, number: int, job: Job, handler: Handler) -> EffectGate | None:
        if handler.effect is not EffectKind.MARKED:
            return None
        return EffectGate(job.request_id, job.generation, partial(self._effects.ask, number))

    def _returned(self, value: object, gate: EffectGate | None) -> Outcome:
        if gate is not None and gate.refused:
            return STALE  # the handler swallowed EffectRefused: the run still does not count
        return judge_return(value, max_result_bytes=self._settings.max_result_bytes)


def _log_context(job: Job) -> AbstractContextManager[None]:
    """Let the lines that a handler logs name its request."""
    return logs.context(
        request_id=job.request_id,
        topic=job.topic,
        attempt=job.attempt,
        generation=job.generation,
    )


def _raised(
    error: BaseException, *, job: Job, handler: Handler, gate: EffectGate | None
) -> Outcome:
    if gate is not None and gate.refused:
        return STALE
    if declared_outcome(error, handler=handler) is None:
        _log.raised(
            "handler.raised",
            error,
            request_id=job.request_id,
            generation=job.generation,
            topic=job.topic,
            handler=handler.name,
        )
    granted = gate is not None and gate.granted
    outcome = judge_error(error, handler=handler, effect_granted=granted)
    if outcome.state is not State.FAILED:
        return outcome
    return replace(outcome, raised=raised_by(error))


def _may_try_again(outcome: Outcome) -> bool:
    """Whether the outcome is a failure that the handler declares to have left nothing."""
    # Of a transaction whose commit has no known outcome the journal has to be asked.
    is_failure = outcome.state is State.FAILED and outcome.resend
    return is_failure and outcome.code != JOURNAL_UNAVAILABLE


def _without_handler(job: Job) -> Outcome:
    told = f"no handler for {job.topic} in this child: was its code changed under the worker?"
    return Outcome(State.FAILED, code=HANDLER_ERROR, message=told, resend=True)
