"""Mirrors `feedback.kafka.confluent`: what no broker can be made to do at will."""
