"""How far a source has read on, in memory."""

from tests.feedback.kafka.engines.test_read_on import *  # noqa: F403
