"""Which offsets hold no committed records, in memory."""

from tests.feedback.kafka.engines.test_silences import *  # noqa: F403
