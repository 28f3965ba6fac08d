"""What is seen from outside of requests that wait for their key."""

from __future__ import annotations

from consumer.ops.health.gauges import Gauges
from consumer.ops.health.progress import DISPATCH
from consumer.ops.health.vitals import excused
from tests.consumer.ops.health.samples import vitals


def test_how_many_wait_for_their_key_and_since_when_is_a_metric() -> None:
    seen = vitals(order_held={"a": 7, "b": 2}, order_held_limit=10, order_held_s=3.5)
    gauges = Gauges(look=lambda: seen, oldest=lambda: None, lateness=dict, stalled=dict)
    found = {one.name: one.samples for one in gauges.collect()}
    held = found["onceward_order_held_requests"]
    assert {one.labels["topic"]: one.value for one in held} == {"a": 7, "b": 2}
    assert found["onceward_order_held_limit_requests"][0].value == 10
    assert found["onceward_order_held_oldest_seconds"][0].value == 3.5


def test_as_many_as_may_wait_for_their_key_excuse_nobody_from_taking_what_else_there_is() -> None:
    full = {"order_held": {"a": 10}, "order_held_limit": 10}
    assert DISPATCH not in excused(vitals(waiting=3, free_slots=2, **full))
    assert DISPATCH in excused(vitals(waiting=0, free_slots=2, **full))
