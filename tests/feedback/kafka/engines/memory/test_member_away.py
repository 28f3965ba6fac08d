"""A member whose broker is away, in memory."""

from tests.feedback.kafka.engines.test_member_away import *  # noqa: F403
