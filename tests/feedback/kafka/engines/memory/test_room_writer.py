"""Records that are written, in memory."""

from tests.feedback.kafka.test_writer import *  # noqa: F403
