"""Topics beside a user's topic, in memory."""

from tests.feedback.kafka.test_topics import *  # noqa: F403
