"""What is seen from outside of requests that wait for their key."""

from __future__ import annotations

from consumer.health.gauges import Gauges
from consumer.health.progress import DISPATCH
from consumer.health.vitals import excused
from tests.consumer.health.samples import vitals


def test_how_many_wait_for_their_key_and_since_when_is_a_metric() -> None:
    seen = vitals(order_held=7, order_held_limit=10, order_held_s=3.5)
    gauges = Gauges(look=lambda: seen, oldest=lambda: None, lateness=dict, stalled=dict)
    values = {one.name: one.samples[0].value for one in gauges.collect() if one.samples}
    assert values["onceward_order_held_requests"] == 7
    assert values["onceward_order_held_limit_requests"] == 10
    assert values["onceward_order_held_oldest_seconds"] == 3.5


def test_a_worker_is_not_stalled_because_as_many_as_may_wait_for_their_key() -> None:
    held = {"waiting": 3, "free_slots": 2, "order_held_limit": 10}
    assert DISPATCH not in excused(vitals(order_held=9, **held))
    assert DISPATCH in excused(vitals(order_held=10, **held))
