"""A record on its way to Kafka, and its end: coordinates, a refusal, or unknown."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError, KafkaTimeoutError

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault
from feedback.kafka.kafka_python.faults import in_words
from feedback.kafka.kafka_python.send_refusals import refusal_of
from feedback.kafka.send_errors import RecordUnknown
from feedback.kafka.sending import Coordinates, tell_of_end


class KafkaPythonPending:
    """A record on its way to Kafka.

    Args:
        future: kafka-python's.
        deadline_s: monotonic time until which its result is awaited.
        on_unknown: called when its result is not known.
        why: returns the fault of security for which no broker has answered since the send.
        refusals_are_certain: whether Kafka's refusal is of this record. An idempotent producer ends
            all its records with one record's refusal, even those under way, and takes nothing more.
    """

    def __init__(
        self,
        future: Any,
        deadline_s: float,
        on_unknown: Callable[[], None] = lambda: None,
        *,
        why: Callable[[], SecurityFault | None] = lambda: None,
        refusals_are_certain: bool = True,
    ) -> None:
        self._future = future
        self._deadline_s = deadline_s
        self._on_unknown = on_unknown
        self._why = why
        self._refusals_are_certain = refusals_are_certain

    def is_settled(self, wait_s: float) -> bool:
        """Whether its result is known, waiting for it at most so long."""
        if not self._future.is_done and wait_s > 0:
            with contextlib.suppress(KafkaError):
                self._future.get(timeout=wait_s)
        return bool(self._future.is_done)

    def result(self) -> Coordinates:
        """Return the record's coordinates, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        left_s = self._deadline_s - monotonic_s()
        try:
            if left_s <= 0 and not self._future.is_done:
                raise KafkaTimeoutError("no answer in time")
            stored = self._future.get(timeout=max(0.001, left_s))
        except KafkaError as error:
            # Any other error of that kind is a signal handler's.
            is_certain = self._refusals_are_certain and error is self._future.exception
            refusal = refusal_of(error) if is_certain else None
            if refusal is not None:
                raise refusal from error
            why = self._why()
            self._on_unknown()
            said = in_words(error) if why is None else why.said
            raise RecordUnknown(f"Kafka did not acknowledge: {said}").because(why) from error
        return Coordinates(stored.topic, stored.partition, stored.offset)

    def when_known(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in a thread of the producer, when `result` returns at once."""
        caller = threading.get_ident()

        def hear(_: Any) -> None:
            # An interrupt is of the caller's own thread. kafka-python's would end by one.
            is_its_own = threading.get_ident() == caller
            tell_of_end(tell, contained=Exception if is_its_own else BaseException)

        self._future.add_callback(hear)
        self._future.add_errback(hear)

    async def ending(self) -> Coordinates:
        """Return `result`, for callers that may block."""
        return self.result()

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False
