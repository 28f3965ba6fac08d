"""Tests of `consumer.features.outgoing`: what waits is written until Kafka has it."""
