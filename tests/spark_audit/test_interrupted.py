"""A test that is interrupted while Java works spoils no other one."""

import os
import signal
import threading
from types import FrameType

import pytest
from pyspark.sql import SparkSession

from tests.spark_audit.interrupted import close_connection

# Longer than this process stands still, so that it is interrupted meanwhile: nobody waits for it.
JAVA_WORKS_MS = 60_000
INTERRUPTED_AFTER_S = 0.3


class _LimitReached(BaseException):
    """As pytest-timeout's: no `except Exception` on the way takes it."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _LimitReached


def test_after_an_interrupted_call_each_call_has_its_own_answer(spark: SparkSession) -> None:
    java = spark._jvm
    assert java is not None
    system, sleep = java.java.lang.System, java.java.lang.Thread.sleep
    before = signal.signal(signal.SIGUSR1, _interrupt)
    interruption = threading.Timer(INTERRUPTED_AFTER_S, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(_LimitReached) as failure:
            interruption.start()
            sleep(JAVA_WORKS_MS)
    finally:
        interruption.join()
        signal.signal(signal.SIGUSR1, before)
    # pytest keeps the error of a failed test, whose frames keep the connection.
    assert failure.tb is not None
    close_connection()
    assert system.getProperty("file.separator") == "/"
    assert [row["id"] for row in spark.range(3).collect()] == [0, 1, 2]
