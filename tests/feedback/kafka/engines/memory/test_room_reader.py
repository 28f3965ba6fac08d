"""One record read by its coordinates, in memory."""

from tests.feedback.kafka.test_reader import *  # noqa: F403
