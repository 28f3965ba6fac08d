"""Partitions that come and go, in memory."""

from tests.feedback.kafka.engines.test_member_group import *  # noqa: F403
