"""The strategy `stop` on real servers: a dead letter pauses its topic for the whole group."""

from __future__ import annotations

import signal

import pytest

from feedback.status import State
from tests.consumer.features.pausing.conftest import MakeScene
from tests.consumer.features.pausing.scene import LIMIT_S, Scene
from tests.eventually import eventually

pytestmark = pytest.mark.waits


@pytest.fixture
def scene(make_scene: MakeScene, journal_url: str) -> Scene:
    """Return a scene whose topic `calling` stops at a dead letter, on each kind of journal."""
    made = make_scene("calling", "other", journal_url=journal_url)
    topic = made.stage.topics["calling"]
    made.stops = {"worker.dead_letters_by_topic": {topic: "stop"}}
    return made


def stopped(scene: Scene) -> str:
    """Let one request fail for good and return its id, when it has stopped its topic."""
    (bad,) = scene.send(do="reject")
    status = scene.stage.final(bad)
    assert (status.state, status.code) == (State.FAILED, "CARD_EXPIRED")
    eventually(scene.paused, timeout_s=LIMIT_S)
    return bad


def test_a_dead_letter_stops_its_topic_in_every_worker_until_a_person_resumes_it(
    scene: Scene,
) -> None:
    workers = [scene.start(**scene.stops) for _ in range(2)]
    eventually(lambda: len(scene.stage.members()) == 2, timeout_s=LIMIT_S)
    bad = stopped(scene)
    (stop,) = [one for worker in workers for one in worker.events("topic.stopped")]
    (peer,) = [worker for worker in workers if not worker.events("topic.stopped")]
    scene.seen_by(peer, "topic.paused", "calling")
    assert (stop["request_id"], stop["code"]) == (bad, "CARD_EXPIRED")
    (pause,) = scene.paused()
    assert pause["topic"] == scene.stage.topics["calling"]
    assert pause["by"] in {worker.worker_id for worker in workers}
    assert bad in pause["reason"] and "CARD_EXPIRED" in pause["reason"]
    # The letter is kept all the same.
    written = f"SELECT dead_letter_at FROM onceward_request WHERE request_id = '{bad}'"
    eventually(lambda: scene.stage.execute(written)[0][0], timeout_s=LIMIT_S)
    sent = scene.send(count=20)
    for name in scene.send("other", count=10, answer=1):
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert not any(scene.stage.runs(name) for name in sent)
    assert scene.command("resume", pause["topic"])[0] == 0
    for name in sent:
        assert scene.stage.final(name).state is State.SUCCEEDED
    for worker in workers:
        scene.seen_by(worker, "topic.resumed", "calling")
    assert scene.paused() == []


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_a_worker_that_is_started_while_a_topic_is_paused_does_not_run_it(scene: Scene) -> None:
    first = scene.start(**scene.stops)
    stopped(scene)
    first.send(signal.SIGKILL)
    first.wait()
    sent = scene.send(count=10)
    second = scene.start(**scene.stops)
    scene.seen_by(second, "topic.paused", "calling")
    for name in scene.send("other", count=5, answer=1):
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert not any(scene.stage.runs(name) for name in sent)
    assert scene.command("resume", scene.stage.topics["calling"])[0] == 0
    for name in sent:
        assert scene.stage.final(name).state is State.SUCCEEDED


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_a_record_that_can_never_run_stops_its_topic_and_others_do_not_stop(scene: Scene) -> None:
    worker = scene.start(**scene.stops)
    bad = [("onceward-deadline", b"no time")]
    scene.stage.produce(b"{}", headers=bad, handler="other")
    sent = scene.stage.produce(b"{}", headers=bad, handler="calling")
    scene.seen_by(worker, "topic.stopped", "calling")
    eventually(scene.paused, timeout_s=LIMIT_S)
    (pause,) = scene.paused()
    assert pause["topic"] == scene.stage.topics["calling"]
    assert f"INVALID_MESSAGE of {sent.coordinates_id}" in pause["reason"]
