"""Logs that a block configures are put back behind it."""

import io
import logging

from feedback.logs import configure
from tests.kit.kept_logs import kept_logs


def test_handlers_and_levels_are_as_they_were() -> None:
    root, kafka = logging.getLogger(), logging.getLogger("kafka")
    before = root.handlers[:], root.level, kafka.level
    with kept_logs():
        configure(level="DEBUG", stream=io.StringIO())
        assert (root.handlers[:], root.level, kafka.level) != before
    assert (root.handlers[:], root.level, kafka.level) == before


_configured: list[logging.Handler] = []


def test_so_they_are_behind_each_test() -> None:
    configure(stream=io.StringIO())
    _configured.extend(logging.getLogger().handlers)


def test_so_they_were_behind_the_test_before() -> None:
    assert not {*_configured} & {*logging.getLogger().handlers}
