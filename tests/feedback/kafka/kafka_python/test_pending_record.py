"""A client's record on its way to Kafka by kafka-python."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from feedback.clock import monotonic_s
from feedback.kafka.kafka_python.pending_record import KafkaPythonPending

LIMIT_S = 10.0


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit], ids=["error", "exit"])
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "lost"])
def test_what_a_caller_s_function_raises_is_logged_and_ends_no_thread_of_the_library(
    caplog: pytest.LogCaptureFixture, fault: type[BaseException], is_stored: bool
) -> None:
    future = Future()
    pending = KafkaPythonPending(future, monotonic_s() + LIMIT_S)
    told: list[str] = []
    pending.when_known(lambda: _raise(fault))
    pending.when_known(lambda: told.append("another function"))

    def end() -> None:
        future.success(None) if is_stored else future.failure(KafkaTimeoutError())
        told.append("the thread")

    thread = threading.Thread(target=end)
    thread.start()
    thread.join(LIMIT_S)
    assert told == ["another function", "the thread"]
    assert [one.message.split()[0] for one in caplog.records] == ["send.tell_failed"]


def test_an_interrupt_of_a_caller_that_learns_a_known_end_is_its_own() -> None:
    pending = KafkaPythonPending(Future().success(None), monotonic_s() + LIMIT_S)
    pending.when_known(lambda: _raise(ZeroDivisionError))
    with pytest.raises(KeyboardInterrupt):
        pending.when_known(lambda: _raise(KeyboardInterrupt))


def _raise(fault: type[BaseException]) -> None:
    raise fault
