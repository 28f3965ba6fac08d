"""Whole topics read once, in memory."""

from tests.feedback.kafka.test_scan import *  # noqa: F403
