"""Asking the counterparty about a run in doubt: the handler's query is called in its stead."""

from __future__ import annotations

import inspect

from consumer.handlers.declaration import Handler
from consumer.handlers.query_result import Unknown, understand
from consumer.handlers.registry import HandlerRegistry
from consumer.handlers.request import Request
from consumer.pool.job import Job, PoolSettings, request_of_job
from consumer.pool.outcome import Outcome, judge_answer, refuse_unstarted
from feedback.foreign import class_name
from feedback.logs import EventLog

_log = EventLog("onceward.child")


class Queries:
    """Asks with the queries of this child's handlers. If the query fails, the answer is unknown.

    Args:
        registry: the handlers.
        settings: the group and the longest result.
    """

    def __init__(self, *, registry: HandlerRegistry, settings: PoolSettings) -> None:
        self._registry = registry
        self._settings = settings

    def is_coroutine(self, job: Job) -> bool:
        """Tell whether the job's query belongs on the event loop; its handler may differ."""
        handler = self._registry.for_topic(job.topic)
        query = handler.query if handler is not None else None
        return inspect.iscoroutinefunction(query) or inspect.iscoroutinefunction(
            getattr(query, "__call__", None)  # noqa: B004 - an object with `async def __call__`
        )

    def ask(self, job: Job) -> Outcome:
        """Call a plain query; it may raise anything."""
        handler = self._registry.for_topic(job.topic)
        if handler is None or handler.query is None:
            return self._judge(_without_query(job))
        try:
            value = handler.query(self._request(job, handler))
            refuse_unstarted(value)
            return self._judge(value)
        except BaseException as error:
            return self._judge(_raised(error, job=job, handler=handler))

    async def ask_coroutine(self, job: Job) -> Outcome:
        """Await a coroutine query; it may raise anything, cancellation included."""
        handler = self._registry.for_topic(job.topic)
        if handler is None or handler.query is None:
            return self._judge(_without_query(job))
        try:
            return self._judge(await handler.query(self._request(job, handler)))
        except BaseException as error:
            return self._judge(_raised(error, job=job, handler=handler))

    def _request(self, job: Job, handler: Handler) -> Request:
        return request_of_job(job, handler, group=self._settings.group)

    def _judge(self, value: object) -> Outcome:
        return judge_answer(understand(value), max_result_bytes=self._settings.max_result_bytes)


def _raised(error: BaseException, *, job: Job, handler: Handler) -> Unknown:
    _log.raised(
        "query.raised",
        error,
        request_id=job.request_id,
        generation=job.generation,
        topic=job.topic,
        handler=handler.name,
    )
    return Unknown(f"the query function raised {class_name(error)}")


def _without_query(job: Job) -> Unknown:
    return Unknown(f"no query function for {job.topic} in this child: was its code changed?")
