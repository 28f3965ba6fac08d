"""Tests of the outbox and its relay."""
