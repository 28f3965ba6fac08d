"""A worker in a thread of this process: all of it but its signals."""

from __future__ import annotations

import threading

from consumer.ops.log_level import LogLevelSignals
from consumer.ops.service import Service
from feedback.kafka.values import Place
from feedback.observer import Observer
from feedback.settings.settings import Settings
from onceward.servers.polling import eventually

START_S = 60.0
STOP_S = 60.0


class _Deliveries(Observer):
    """Counts the records that the worker has taken in."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, what: str, label: str, count: int) -> None:
        """Hear of records that were read, committed, and put into the buffer."""
        if what == "deliveries":
            self.count += count


class RunningWorker:
    """A worker that reads its topics from the return of this call on.

    Args:
        settings: of servers that are there, and with handlers.

    Raises:
        OncewardError: it could not start; the sentence is the worker's.
    """

    def __init__(self, settings: Settings) -> None:
        self._deliveries = _Deliveries()
        self._fault: BaseException | None = None
        self._service = Service(settings, LogLevelSignals(), observers=(self._deliveries,))
        # The kernel kills the children when the thread that started them ends.
        self._thread = threading.Thread(target=self._run, name="onceward-worker", daemon=True)
        self._thread.start()
        try:
            eventually(self._is_ready, timeout_s=START_S, what="a worker that reads its topics")
        except BaseException:
            self._service.built.stop.ask()
            self._thread.join(STOP_S)
            raise

    @property
    def deliveries(self) -> int:
        """How many records it has taken in."""
        return self._deliveries.count

    def has_none_of(self, places: frozenset[Place]) -> bool:
        """Return whether it holds none of these records, and has told all statuses."""
        self.require_running()
        built = self._service.built
        return not built.worker.in_hand.has_any(places) and not built.status_writer.backlog

    def require_running(self) -> None:
        """Return where it still works.

        Raises:
            OncewardError: the fault that ended it.
        """
        if self._fault is not None:
            raise self._fault

    def stop(self) -> None:
        """Drain it as SIGTERM does, and return when it has ended.

        Raises:
            OncewardError: it had ended before, by a fault.
            TimeoutError: it does not end.
        """
        self._service.built.stop.ask()
        self._thread.join(STOP_S)
        self.require_running()
        if self._thread.is_alive():
            raise TimeoutError(f"the worker did not end within {STOP_S:g} s")

    def _is_ready(self) -> bool:
        self.require_running()
        found = self._service.built.probe.look()
        return found.is_joined and found.partitions > 0 and found.children_ready > 0

    def _run(self) -> None:
        try:
            self._service.run(owns_process=False)
        except BaseException as fault:  # the test raises it: nobody looks at this thread
            self._fault = fault
