"""A member of a group, in memory."""

from tests.feedback.kafka.engines.test_member import *  # noqa: F403
