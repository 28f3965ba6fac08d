"""Tests of `consumer.outcomes`: the results of requests, passed on."""
