"""The logs of this process as they were, after code that configures them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# `feedback.logs.configure` sets these.
_NAMES = (None, "kafka")


@contextmanager
def kept_logs() -> Iterator[None]:
    """Put the handlers and levels back behind the block."""
    loggers = [logging.getLogger(name) for name in _NAMES]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(level)
