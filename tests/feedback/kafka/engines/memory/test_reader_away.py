"""A reader whose broker is silent, in memory."""

from tests.feedback.kafka.engines.test_reader_away import *  # noqa: F403
