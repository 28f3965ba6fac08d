"""Sockets of failed connections, which kafka-python leaves to the garbage collector."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_open() -> Iterator[None]:
    """Let it do so within the block, where else a warning is an error, and collect them after."""
    # pytest takes its filters back after each test.
    warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
    # A captured log holds the errors, whose frames hold the sockets until after the test.
    kafka_log = logging.getLogger("kafka")
    before = kafka_log.level
    kafka_log.setLevel(logging.CRITICAL + 1)
    # The collection at the end looks at what the block has made, and not at all of some thousand
    # tests before it: that takes 0.1 to 0.3 s.
    gc.freeze()
    yield
    kafka_log.setLevel(before)
    # Here and not in a later test, where a warning is an error.
    gc.collect()
