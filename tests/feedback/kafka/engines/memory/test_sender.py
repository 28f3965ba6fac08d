"""A client's record, in memory."""

from tests.feedback.kafka.engines.test_sender import *  # noqa: F403
