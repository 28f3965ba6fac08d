"""The pool's settings, and a job for each run, which becomes a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from consumer.handlers.declaration import Handler
from consumer.handlers.effect_gate import EffectGate
from consumer.handlers.request import Request, RequestHeaders

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from consumer.handlers.dead_letters.dead_letter import DeadLetter


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The size of a pool, and the settings of its children.

    Attributes:
        handlers: modules that each child imports.
        group: the consumer group; idempotency keys derive from it.
        declarations: the digest of the worker's declarations (`consumer.handlers.fingerprint`); a
            child with another digest is not used. Empty: any digest will do.
        processes: children. slots_per_process: handlers that run in one at the same time.
        spare_processes: children beside those that wait, ready, for one of them to end.
        prefetch: jobs that wait in a child beside those that run.
        max_result_bytes: a longer result is left out.
        journal_url: where transactional handlers write; unused without one.
        start_timeout_s: how long a child may take to import its handlers; its waits for a processor
            do not count.
        handover_timeout_s: how long a child may take to start a job for which it has a slot.
        memory_limit_bytes: resident memory above which a child is replaced after its jobs, and
            at once above twice as much; None is unlimited.
        log_level: of the children's logs.
        max_requests_per_child: jobs after which a child is replaced; None is unlimited.
        worker_id: whose claims transactional handlers end; unused without one.
    """

    handlers: tuple[str, ...]
    group: str
    processes: int = 2
    slots_per_process: int = 1
    spare_processes: int = 0
    prefetch: int = 0
    max_result_bytes: int = 65536
    journal_url: str = field(default="", repr=False)  # may hold a password
    start_timeout_s: float = 30.0
    handover_timeout_s: float = 10.0
    memory_limit_bytes: int | None = None
    log_level: str = "INFO"
    max_requests_per_child: int | None = None
    declarations: str = ""
    worker_id: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """The request of one run, as sent to a child; times are epoch ms, key and value may be null.

    Attributes:
        time_limit_s: how long it may run before its child is killed; only the parent knows it.
        asks: ask the counterparty with the handler's `query` instead of running the handler.
        collapses: ask the handler's `collapse` first whether it is to run at all.
    """

    request_id: str
    generation: int
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: RequestHeaders = field(repr=False)
    attempt: int
    deadline_at: int
    voids: int = 0
    time_limit_s: float | None = None
    asks: bool = False
    collapses: bool = False


def request_of_job(
    job: Job,
    handler: Handler,
    *,
    group: str,
    gate: EffectGate | None = None,
    connection: Connection | None = None,
) -> Request:
    """Return the request that the user's function gets for a job.

    Args:
        group: the consumer group; the idempotency key derives from it.
        gate: the door to a marked effect.
        connection: the open transaction of a transactional handler.
    """
    return Request(
        request_id=job.request_id,
        topic=job.topic,
        partition=job.partition,
        offset=job.offset,
        timestamp=job.timestamp,
        key=job.key,
        value=job.value,
        headers=job.headers,
        attempt=job.attempt,
        generation=job.generation,
        deadline_at=job.deadline_at,
        group=group,
        voids=job.voids,
        effect_kind=handler.effect,
        model=handler.model,
        gate=gate,
        journal_connection=connection,
        dead_letter=None if handler.dead_letters_of is None else _letter_of(job),
    )


def _letter_of(job: Job) -> DeadLetter:
    # Memory that other children do not need.
    from consumer.handlers.dead_letters.dead_letter import read_dead_letter

    return read_dead_letter(job.request_id, job.key, job.headers)
