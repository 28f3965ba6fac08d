"""A client's record when the broker fails, in memory."""

from tests.feedback.kafka.engines.test_sender_away import *  # noqa: F403
