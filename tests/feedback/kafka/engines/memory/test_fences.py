"""One writer of a name, in memory."""

from tests.feedback.kafka.engines.test_fences import *  # noqa: F403
