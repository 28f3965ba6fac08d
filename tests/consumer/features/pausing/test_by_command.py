"""Topics that a person pauses and resumes, on real servers."""

from __future__ import annotations

import time

import pytest
import requests

from feedback.status import State
from onceward.servers.ports import free_port
from tests.consumer.features.pausing.conftest import MakeScene
from tests.consumer.features.pausing.scene import LIMIT_S, Scene
from tests.eventually import eventually

pytestmark = pytest.mark.waits

REASON = "the bank's \x1b[31mmigration"


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    """Return a scene with two topics."""
    return make_scene("calling", "other")


def pause(scene: Scene) -> str:
    """Pause the topic of `calling` and return its name."""
    topic = scene.stage.topics["calling"]
    code, printed = scene.command("pause", topic, "--because", REASON, "--by", "ann@desk")
    assert (code, printed) == (0, f"{topic} is paused\n")
    return topic


def test_a_paused_topic_waits_and_the_others_go_on(scene: Scene) -> None:
    worker = scene.start()
    pause(scene)
    scene.seen_by(worker, "topic.paused", "calling")
    sent = scene.send(count=10)
    for name in scene.send("other", count=10, answer=1):
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert {scene.stage.client.status(name).state for name in sent} == {State.PENDING}
    assert scene.command("resume", scene.stage.topics["calling"])[0] == 0
    for name in sent:
        assert scene.stage.final(name).state is State.SUCCEEDED


def test_commands_say_what_stands_and_end_by_it(scene: Scene) -> None:
    topic = scene.stage.topics["calling"]
    assert scene.command("paused") == (0, "no topic is paused\n")
    assert scene.command("resume", topic)[0] == 1
    assert scene.command("pause", f"no-{topic}", "--because", "r")[0] == 2
    assert scene.command("pause", topic)[0] == 2
    assert scene.command("pause", topic, "--reason", "r")[0] == 2
    pause(scene)
    again = scene.command("pause", topic, "--because", "another")
    assert again == (0, f"{topic} was paused already\n")
    code, printed = scene.command("paused")
    assert code == 0
    assert printed.startswith(f"{topic}  since 20")
    assert printed.endswith("by ann@desk: the bank's \\x1b[31mmigration\n")
    (found,) = scene.paused()
    assert (found["topic"], found["by"], found["reason"]) == (topic, "ann@desk", REASON)
    # Of a screen from before it was paused anew.
    code, printed = scene.command("resume", topic, "--since", str(found["since"] - 1))
    assert (code, printed) == (1, "")
    since = ("--since", str(found["since"]))
    code, printed = scene.command("resume", topic, *since, "--by", "bob@desk")
    assert (code, printed.startswith(f"{topic} goes on")) == (0, True)
    (row,) = scene.stage.execute("SELECT resumed_by FROM onceward_pause")
    assert row[0] == "bob@desk"


def test_who_does_it_is_recorded_by_itself(scene: Scene) -> None:
    topic = scene.stage.topics["calling"]
    scene.command("pause", topic, "--because", "r")
    (found,) = scene.paused()
    assert all(found["by"].partition("@"))


def test_partitions_that_a_rebalance_brings_are_paused_too(scene: Scene) -> None:
    first = scene.start()
    pause(scene)
    scene.seen_by(first, "topic.paused", "calling")
    sent = scene.send(count=20)
    second = scene.start()
    eventually(lambda: len(scene.stage.members()) == 2, timeout_s=LIMIT_S)
    assert first.stop() == 0  # and all partitions are the second's
    eventually(lambda: list(scene.stage.members().values()) == [4], timeout_s=LIMIT_S)
    for name in scene.send("other", count=10, answer=1):
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert not any(scene.stage.runs(name) for name in sent)
    assert scene.command("resume", scene.stage.topics["calling"])[0] == 0
    for name in sent:
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert {run["parent"] for run in scene.stage.runs() if run["request_id"] in sent} == {
        second.pid
    }


def test_a_pause_longer_than_the_poll_interval_costs_no_membership(make_scene: MakeScene) -> None:
    scene = make_scene("calling", kafka={"max_poll_interval_s": 6})
    worker = scene.start()
    for name in scene.send(count=3):
        assert scene.stage.final(name).state is State.SUCCEEDED
    members = scene.stage.members()
    pause(scene)
    scene.seen_by(worker, "topic.paused", "calling")
    began_s = time.monotonic()
    sent = scene.send(count=5)

    def is_over() -> bool:
        assert scene.stage.members() == members
        return time.monotonic() - began_s > 9

    eventually(is_over, timeout_s=30, interval_s=0.3)
    assert not any(scene.stage.runs(name) for name in sent)
    scene.command("resume", scene.stage.topics["calling"])
    for name in sent:
        assert scene.stage.final(name).state is State.SUCCEEDED
    assert scene.stage.members() == members


def test_pages_and_metrics_name_what_is_paused(scene: Scene) -> None:
    port = free_port()
    worker = scene.start(worker={"http_port": port})
    topic = pause(scene)
    scene.seen_by(worker, "topic.paused", "calling")

    def ready() -> requests.Response | None:
        page = requests.get(f"http://127.0.0.1:{port}/ready", timeout=LIMIT_S)
        return page if page.status_code == 200 else None

    # What is paused makes nobody unready; it may still be on its way to its partitions.
    page = eventually(ready, timeout_s=30, what="ready")
    assert page is not None
    (shown,) = page.json()["paused"]
    assert (shown["topic"], shown["reason"], shown["by"]) == (topic, REASON, "ann@desk")
    metric = f'onceward_topic_paused_seconds{{by="group",topic="{topic}"}}'
    assert metric in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S).text
    scene.command("resume", topic)
    scene.seen_by(worker, "topic.resumed", "calling")
    assert metric not in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S).text
