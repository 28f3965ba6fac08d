"""The outage guard on real servers: a counterparty that goes away and comes back."""

from __future__ import annotations

import time

import pytest

from consumer.features.pausing.circuit_breaker import LONGEST_PAUSE_S
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.features.pausing.conftest import MakeScene
from tests.consumer.features.pausing.scene import LIMIT_S, Scene
from tests.eventually import eventually

pytestmark = pytest.mark.waits

SLOTS = {"processes": 2, "slots_per_process": 4}
# Trips at the sixth failure of ten; so few make a test short.
SMALL = {**SLOTS, "outage_share": 0.5, "outage_window": 10}
TRIPS_AT = 6


def _probes_in(s: float) -> int:
    """Return how many requests at most are let through in so many seconds of a pause."""
    return 3 + int(s / LONGEST_PAUSE_S)


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    """Return a scene whose guard has a small window."""
    return make_scene("calling", "doubting", "trying", "other", worker=SMALL)


def test_a_topic_whose_counterparty_is_away_waits_in_kafka_and_goes_on_when_it_is_back(
    scene: Scene,
) -> None:
    worker = scene.start()
    scene.goes_down()
    began_s = time.monotonic()
    sent = scene.send(count=150)
    scene.seen_by(worker, "guard.paused", "calling")
    (paused,) = worker.events("guard.paused")
    assert paused["reason"] == "HANDLER_ERROR ConnectionRefusedError"
    for name in scene.send("other", answer=1):
        assert scene.stage.final(name).state is State.SUCCEEDED  # nobody else is held up
    paused_s = time.monotonic()
    eventually(lambda: time.monotonic() - paused_s > 4)
    scene.is_back()
    down_s = time.monotonic() - began_s
    scene.seen_by(worker, "guard.resumed", "calling")
    eventually(lambda: len(scene.rows()) == len(sent), timeout_s=LIMIT_S)
    eventually(lambda: "CLAIMED" not in scene.rows().values(), timeout_s=LIMIT_S)
    # What ran when it tripped, with what had been claimed in the same turn, and probes.
    failed = scene.count("calling", "FAILED")
    assert TRIPS_AT <= failed <= TRIPS_AT + 2 * 8 + _probes_in(down_s)
    assert scene.count("calling", "SUCCEEDED") == len(sent) - failed


def test_requests_that_end_in_doubt_are_an_outage_as_well(scene: Scene) -> None:
    worker = scene.start()
    scene.goes_down()
    began_s = time.monotonic()
    sent = scene.send("doubting", count=60)
    scene.seen_by(worker, "guard.paused", "doubting")
    scene.is_back()
    down_s = time.monotonic() - began_s
    scene.seen_by(worker, "guard.resumed", "doubting")
    eventually(lambda: len(scene.rows("doubting")) == len(sent), timeout_s=LIMIT_S)
    assert scene.count("doubting", "IN_DOUBT") <= TRIPS_AT + 2 * 8 + _probes_in(down_s)


def test_what_waits_for_its_retry_is_left_alone_and_ends_the_outage_when_nothing_else_does(
    scene: Scene,
) -> None:
    worker = scene.start()
    scene.goes_down()
    sent = scene.send("trying", count=8)  # as many as there are slots: nothing else waits
    scene.seen_by(worker, "guard.paused", "trying")
    began_s = time.monotonic()
    eventually(lambda: not scene.count("trying", "CLAIMED"), timeout_s=LIMIT_S)
    runs = len(scene.stage.runs())
    eventually(lambda: time.monotonic() - began_s > 5)
    # Every one of them was due ten times and more.
    after = len(scene.stage.runs())
    assert after - runs <= _probes_in(time.monotonic() - began_s)
    scene.is_back()
    for name in sent:
        assert scene.stage.final(name, timeout_s=40).state is State.SUCCEEDED
    scene.seen_by(worker, "guard.resumed", "trying")


def test_what_was_read_before_is_given_up_in_time_and_a_probe_is_read_from_kafka(
    make_scene: MakeScene,
) -> None:
    scene = make_scene("calling", worker={**SMALL, "buffer_limit": 8})
    # No lease and no heartbeat ends meanwhile: what is given up then has another reason.
    worker = scene.start(journal={"wait_s": 1.5, "lease_s": 30}, redis={"heartbeat_ttl_s": 20})
    scene.goes_down()
    sent = scene.send(count=60)
    scene.seen_by(worker, "guard.paused", "calling")

    def given_up() -> int:
        codes = [one["code"] for one in worker.events("requests.given_up")]
        return codes.count("TOPIC_PAUSED")

    def lost_ones() -> list[str]:
        # Clients are told a moment after the log is.
        states.update({name: scene.stage.client.status(name) for name in sent})
        return [name for name, one in states.items() if one.state is State.LOST]

    states: dict[str, Status] = {}
    eventually(given_up, timeout_s=LIMIT_S)
    lost = eventually(lost_ones, timeout_s=LIMIT_S)
    assert len(lost) <= 8 + 3
    assert {states[name].code for name in lost} == {"TOPIC_PAUSED"}
    assert State.PENDING in {one.state for one in states.values()}
    scene.is_back()
    scene.seen_by(worker, "guard.resumed", "calling")
    ends = {name: scene.stage.client.wait(name, timeout_s=30).state for name in lost}
    assert set(ends.values()) == {State.SUCCEEDED}
    # Others may have been given up since the look above: they are sent again for their clients.
    for name in sent:
        scene.stage.client.wait(name, timeout_s=30)
    eventually(lambda: len(scene.rows()) == len(sent), timeout_s=LIMIT_S)


def test_rejections_never_pause_a_topic(scene: Scene) -> None:
    worker = scene.start()
    sent = scene.send(count=40, do="reject")
    eventually(lambda: scene.count("calling", "FAILED") == len(sent), timeout_s=LIMIT_S)
    assert worker.events("guard.paused") == []


def test_without_a_share_nothing_is_ever_paused(make_scene: MakeScene) -> None:
    scene = make_scene("calling", worker={**SMALL, "outage_share": 0})
    worker = scene.start()
    scene.goes_down()
    sent = scene.send(count=80)
    eventually(lambda: scene.count("calling", "FAILED") == len(sent), timeout_s=LIMIT_S)
    assert worker.events("guard.paused") == []
