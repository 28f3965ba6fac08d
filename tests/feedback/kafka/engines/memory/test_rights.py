"""Topics and groups that a user may not use, in memory."""

from tests.feedback.kafka.engines.test_rights import *  # noqa: F403
