"""One letter for each expiry, whatever becomes of the registries."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence

import pytest

from tests.consumer.features.waits.registry.conftest import MakeScene
from tests.consumer.features.waits.registry.scene import Scene
from tests.consumer.running import RunningWorker
from tests.eventually import eventually
from tests.paused import paused_without_lock

pytestmark = pytest.mark.waits

EXPIRIES = 2000
KILLS = 10
PAUSES = 2
PAUSED_EXPIRIES = 750
AHEAD_S = 3600.0


def _planted(scene: Scene, count: int, *, within_s: float = 0.0) -> set[str]:
    """Write so many requests that expire one after the other within this time, and half as many
    that do not; return those that do."""
    names = [f"request-{number}" for number in range(count)]
    scene.write(
        [
            scene.wait(
                name, partition=at % scene.partitions, expires_in_s=within_s * at / count - 1
            )
            for at, name in enumerate(names)
        ]
    )
    scene.write([scene.wait(f"later-{at}", expires_in_s=AHEAD_S) for at in range(count // 2)])
    return set(names)


def _once_each(scene: Scene, names: set[str]) -> None:
    assert scene.await_letters(names) == dict.fromkeys(names, 1)
    assert not any(name.startswith("later") for name in scene.tombstones())
    assert scene.tombstones().keys() == names


def test_two_at_once_share_the_work(scene: Scene) -> None:
    names = _planted(scene, 400)
    both = [scene.start(), scene.start()]
    _once_each(scene, names)
    assert [one.stop() for one in both] == [0, 0]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ten_kills_in_two_thousand_expiries_repeat_nothing(scene: Scene) -> None:
    chance = random.Random(EXPIRIES)
    two = [scene.start(), scene.start()]
    scene.await_owned()
    names = _planted(scene, EXPIRIES, within_s=40)
    for number in range(KILLS):
        goal = EXPIRIES * number // (KILLS + 1) + chance.randrange(EXPIRIES // (KILLS + 1))
        _await_count(scene, goal)
        # The owner of what is being moved, but for every third time.
        victim = _owner(scene, two) if number % 3 else chance.choice(two)
        victim.kill()
        two = [scene.start() if one is victim else one for one in two]
    _once_each(scene, names)


@pytest.mark.timeout(300)
def test_one_that_stood_still_past_its_lease_repeats_nothing(
    make_scene: MakeScene, journal_url: str
) -> None:
    scene = make_scene(partitions=1, database_url=journal_url)
    two = [scene.start(), scene.start()]
    scene.await_owned()
    names = _planted(scene, PAUSED_EXPIRIES, within_s=15)
    for number in range(PAUSES):
        _await_count(scene, PAUSED_EXPIRIES * number // (PAUSES + 1) + 1)
        sleeper = _owner(scene, two)
        with paused_without_lock(sleeper.pid, journal_url):
            # Its session ends, and its lease: the other takes the partition, and moves what is due.
            eventually(
                lambda: _owner(scene, two) is not sleeper,  # noqa: B023
                timeout_s=60,
                what="another owner",
            )
            _await_count(scene, min(sum(scene.letters().values()) + 1, PAUSED_EXPIRIES))
    _once_each(scene, names)
    assert all(one.is_alive for one in two)


def _await_count(scene: Scene, count: int) -> None:
    eventually(
        lambda: sum(scene.letters().values()) >= count,
        timeout_s=60,
        interval_s=0.01,
        what=f"{count} letters",
    )


def _owner(scene: Scene, registries: Sequence[RunningWorker]) -> RunningWorker:
    """Return who has the first partition; the first of them while nobody has it."""
    names = [one or "" for one in scene.owners()]
    found = [one for one in registries if f"-{one.pid}-" in names[0]]
    return found[0] if found else registries[0]


def test_a_letter_that_was_sent_before_a_kill_is_found(scene: Scene) -> None:
    scene.write([scene.wait("a")])
    registry = scene.start()
    scene.await_letters({"a"})
    registry.kill()
    # As if it had died between its letter and its tombstone.
    place = {"g": scene.group, "t": scene.wait_topic}
    scene.change(
        "INSERT INTO onceward_wait_expiry VALUES (:g, :t, 0, 'a', 0, 5, 'gone', 1, 5, 0, 0, NULL)",
        **place,
    )
    assert scene.once().wait() == 0
    assert (scene.letters(), scene.begun()) == ({"a": 1}, set())


def test_a_completion_before_the_letter_calls_it_off(scene: Scene) -> None:
    scene.write([scene.wait("a"), scene.wait("b"), scene.wait("c")])
    # As if one had died after taking them out of the table, and before the letters.
    for offset, name in enumerate("abc"):
        scene.change(
            "INSERT INTO onceward_wait_expiry VALUES "
            "(:g, :t, 0, :name, :offset, 5, 'gone', 1, 5, 0, 0, NULL)",
            g=scene.group,
            t=scene.wait_topic,
            name=name,
            offset=offset,
        )
    scene.end(["a"])
    scene.write([scene.wait("b", generation=2, expires_in_s=AHEAD_S)])
    done = scene.once()
    assert done.wait() == 0
    assert scene.letters() == {"c": 1}
    assert scene.tombstones() == {"a": 1, "c": 1}
    assert (scene.waiting(), scene.begun()) == ({"b"}, set())


def test_sigterm_ends_it_in_order_and_frees_its_partitions(scene: Scene) -> None:
    scene.write([scene.wait("a")])
    registry = scene.start()
    scene.await_letters({"a"})
    assert registry.stop(signal.SIGTERM) == 0
    assert len(registry.events("waits.stopped")) == 1
    assert scene.owners() == [None] * scene.partitions


def test_a_lease_shorter_than_the_work_is_held_by_the_work(scene: Scene) -> None:
    names = [f"request-{at}" for at in range(50)]
    scene.write([scene.wait(name) for name in names])
    registry = scene.start(registry={"lease_s": 0.2})
    assert scene.await_letters(set(names)) == dict.fromkeys(names, 1)
    assert registry.stop() == 0
