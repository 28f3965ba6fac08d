"""A reader of partitions, in memory."""

from tests.feedback.kafka.engines.test_reader import *  # noqa: F403
