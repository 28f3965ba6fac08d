"""A producer whose broker fails, in memory."""

from tests.feedback.kafka.engines.test_producer_away import *  # noqa: F403
