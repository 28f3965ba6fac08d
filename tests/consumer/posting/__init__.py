"""Tests of `consumer.posting`: what waits is written until Kafka has it."""
