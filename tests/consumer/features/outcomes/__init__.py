"""Tests of `consumer.features.outcomes`: the results of requests, passed on."""
