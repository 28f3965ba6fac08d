"""What a worker offers to the threads that read Kafka for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.status.status_writer import StatusWriter
from feedback.settings.settings import Settings


@dataclass(frozen=True, kw_only=True)
class IntakeContext:
    """The worker, as its readers see it.

    Attributes:
        buffer: where requests wait for a slot.
        status_writer: tells clients.
        may_take: whether the worker can take records now: its journal answers, a child is ready.
        wake: wakes the worker's loop; any thread.
        on_end: called with the error that ended a reader, or None after `leave`.
        gates: close topics, of which nothing is to be read then; they stay in Kafka.
        full: returns the topics of which as many requests wait for their keys as may.
    """

    settings: Settings
    worker_id: str
    buffer: Buffer
    status_writer: StatusWriter
    may_take: Callable[[], bool]
    wake: Callable[[], None]
    on_end: Callable[[BaseException | None], None]
    gates: Sequence[Gate] = ()
    full: Callable[[], frozenset[str]] = frozenset
