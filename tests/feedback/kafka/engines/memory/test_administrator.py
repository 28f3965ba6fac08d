"""Questions and requests about topics and groups, in memory."""

from tests.feedback.kafka.engines.test_administrator import *  # noqa: F403
