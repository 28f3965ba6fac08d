"""The event that wakes the pool's loop."""

import os
import threading

import pytest

from consumer.pool.wakeup import Wakeup


def test_a_close_waits_for_a_set_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    wakeup = Wakeup()
    closing = threading.Thread(target=wakeup.close)
    write = os.eventfd_write

    def write_late(fd: int, value: int) -> None:
        closing.start()
        closing.join(0.2)  # it must not get to its end
        write(fd, value)

    monkeypatch.setattr(os, "eventfd_write", write_late)
    wakeup.set()
    closing.join(60)
    assert not closing.is_alive()


def test_a_set_after_the_close_does_nothing_to_the_next_file_of_its_number() -> None:
    wakeup = Wakeup()
    number = wakeup.fileno()
    wakeup.close()
    other = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        assert other == number
        wakeup.set()
        with pytest.raises(BlockingIOError):
            os.eventfd_read(other)
    finally:
        os.close(other)
