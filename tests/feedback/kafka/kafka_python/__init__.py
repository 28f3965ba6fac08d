"""Kafka, and the mends of its library."""
