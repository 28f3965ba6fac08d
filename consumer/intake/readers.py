"""Which thread reads the topics of which handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from feedback.kafka.source import KafkaSource


def readers(
    context: IntakeContext,
    handlers: Sequence[Handler],
    *,
    open_source: Callable[[Sequence[Handler]], KafkaSource],
    before_commit: Sequence[BeforeCommit],
) -> Iterator[Intake]:
    """Yield the threads that read requests, but for those of batches (`consumer.features.batches`).

    Topics that collapse have a thread of their own: the buffer does not bound their key_queues.

    Args:
        context: their worker.
        handlers: all of the worker.
        open_source: joins the group for some of them.
        before_commit: steps between a poll and its commit.
    """
    alone = [one for one in handlers if one.delivery is not DeliveryKind.BATCH]
    gathering = [one for one in alone if one.collapse is not None]
    others = [one for one in alone if one.collapse is None]
    if gathering:
        yield Intake(
            context,
            gathering,
            open_source=lambda: open_source(gathering),
            gathers=True,
            name="collapse-intake",
        )
    if others:
        yield Intake(
            context,
            others,
            open_source=lambda: open_source(others),
            before_commit=before_commit,
        )
