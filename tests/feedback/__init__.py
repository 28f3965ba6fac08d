"""Tests of the ground floor; what needs a store runs on Redis and on its fake alike."""
