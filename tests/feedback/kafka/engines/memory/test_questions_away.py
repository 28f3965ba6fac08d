"""Readers and administrators whose broker is away, in memory."""

from tests.feedback.kafka.engines.test_questions_away import *  # noqa: F403
