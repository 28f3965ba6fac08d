"""Signals and faults end a worker. The loop asks for them, nothing is interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from feedback.errors import OncewardError

# A closed terminal drains, and leaves no doubts; `nohup` asks to outlive it.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Counts the signals and keeps the first fault.

    Args:
        on_stop: called after each, also from a signal handler, to wake the loop.

    Attributes:
        fault: the error that ended the worker, if no signal did.
    """

    def __init__(self, *, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._signals = 0
        self.fault: BaseException | None = None

    @property
    def asked(self) -> bool:
        """Whether the worker is to end, in order."""
        return self._signals > 0 or self.fault is not None

    @property
    def at_once(self) -> bool:
        """Whether a second signal says not to wait for the runs."""
        return self._signals > 1

    def ask(self) -> None:
        """Let the worker end, as a signal does."""
        self._signals += 1
        self._on_stop()

    def fail(self, fault: BaseException) -> None:
        """Let a fault end the worker; the first one is its reason."""
        self.fault = self.fault or fault
        self._on_stop()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear signals and faults of threads until the block is left.

        A thread that ended by a fault ends the worker: living on without it would be a stall.

        Raises:
            OncewardError: this is not the main thread, which alone hears signals.
        """
        if threading.current_thread() is not threading.main_thread():
            raise OncewardError("a worker must run in the main thread: it answers signals")
        hook, threading.excepthook = threading.excepthook, self._thread_failed
        heard = [one for one in STOP_SIGNALS if not _is_ignored_hangup(one)]
        handlers = {number: signal.signal(number, self._signalled) for number in heard}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            threading.excepthook = hook

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.ask()

    def _thread_failed(self, thread: threading.ExceptHookArgs) -> None:
        self.fail(thread.exc_value or SystemExit())


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
