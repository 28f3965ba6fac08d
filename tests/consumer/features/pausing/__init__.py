"""Tests of paused topics."""
