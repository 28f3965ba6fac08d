"""The watch: one line when a worker stalls, one when it goes on, and a watchdog fed by progress."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from consumer.ops.health.progress import DISPATCH, LOOP, TELLER, LoopProgress
from consumer.ops.health.vitals import Vitals
from consumer.ops.health.watch import MAX_FRAMES, HealthWatch, thread_stacks
from feedback.clock import monotonic_s
from feedback.logs import configure
from feedback.systemd import Unit
from tests.consumer.ops.health.samples import vitals
from tests.service_manager import NotifySocket

LIMIT_S = 30.0
STEP_S = 9.0


class Scene:
    """A watch on a worker that a test writes, and a clock that it moves."""

    def __init__(self, manager: NotifySocket | None = None) -> None:
        self._manager = manager
        unit = Unit.taken_from(manager.variables, 1) if manager else Unit()
        self.seen: Vitals = vitals()
        self.progress = LoopProgress()
        self.log = io.StringIO()
        configure(stream=self.log)
        self.watch = HealthWatch(
            progress=self.progress,
            limits={LOOP: LIMIT_S, DISPATCH: LIMIT_S, TELLER: LIMIT_S},
            look=lambda: self.seen,
            unit=unit,
        )
        self.now_s = monotonic_s()

    def pass_time(self, seconds: float, *, step_s: float = STEP_S) -> None:
        """Let the watch look again and again; nothing ticks meanwhile but the watch itself."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + step_s)
            self.look(self.now_s)

    def look(self, now_s: float) -> None:
        """Let the watch look once, and its manager hear what it says."""
        self.watch.look(now_s)
        if self._manager:
            self._manager.empty()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@pytest.fixture
def manager() -> Iterator[NotifySocket]:
    """Yield a service manager that wants to hear of us."""
    with NotifySocket(watchdog_s=60.0) as made:
        yield made


@pytest.fixture
def scene(manager: NotifySocket) -> Scene:
    """Return a scene under that manager."""
    return Scene(manager)


def test_a_stall_is_logged_once_and_its_end_once(scene: Scene) -> None:
    scene.progress.tick(LOOP)
    scene.pass_time(LIMIT_S * 3)
    (event,) = scene.events
    assert (event["event"], event["level"]) == ("worker.stalled", "error")
    assert event["loop_s"] > LIMIT_S
    assert "test_watch.py" in event["stacks"][0]
    assert list(scene.watch.stalled) == [LOOP]
    scene.look(monotonic_s())  # the scene's clock runs ahead: for this one all is well
    assert [event["event"] for event in scene.events] == ["worker.stalled", "worker.goes_on"]
    assert scene.watch.stalled == {}


def test_requests_that_wait_beside_free_slots_are_a_stall(scene: Scene) -> None:
    scene.seen = vitals(waiting=3, free_slots=1)
    scene.progress.tick(DISPATCH)
    scene.pass_time(LIMIT_S + STEP_S)
    assert "dispatch_s" in scene.events[0]


def test_a_long_time_without_requests_is_no_debt_when_one_comes(scene: Scene) -> None:
    scene.progress.tick(DISPATCH)
    scene.pass_time(LIMIT_S * 3)
    scene.seen = vitals(waiting=1, untold=5)
    scene.pass_time(LIMIT_S)
    assert scene.events == []
    scene.pass_time(STEP_S)
    assert {"dispatch_s", "teller_s"} <= scene.events[0].keys()


def test_a_process_that_was_stopped_has_not_stalled(scene: Scene) -> None:
    scene.progress.tick(LOOP)
    scene.pass_time(1000, step_s=1000)
    assert scene.events == []
    scene.pass_time(LIMIT_S)
    assert scene.events == []
    scene.pass_time(STEP_S)
    assert [event["event"] for event in scene.events] == ["worker.stalled"]


def test_the_watchdog_is_fed_by_progress_alone(scene: Scene, manager: NotifySocket) -> None:
    scene.progress.tick(LOOP)
    scene.look(scene.now_s)
    assert "WATCHDOG=1" in manager.heard
    scene.pass_time(LIMIT_S + STEP_S)
    assert manager.heard[-1].startswith("STATUS=stalled (loop)")
    manager.heard.clear()
    scene.pass_time(LIMIT_S)
    assert manager.heard == []
    scene.look(monotonic_s())
    assert "WATCHDOG=1" in manager.heard


@pytest.mark.parametrize("lacks", [{"is_open": False}, {"children_ready": 0}])
def test_ready_is_told_once_with_somebody_to_work_and_something_to_read(
    scene: Scene, manager: NotifySocket, lacks: dict[str, Any]
) -> None:
    scene.seen = vitals(**lacks)
    scene.pass_time(STEP_S)
    assert "READY=1" not in manager.heard
    scene.seen = vitals(held=1, waiting=2)
    scene.pass_time(STEP_S * 3)
    assert manager.heard.count("READY=1") == 1
    assert "STATUS=1 running or claimed, 2 waiting" in manager.heard


def test_a_status_names_what_is_away_and_is_told_when_it_changes(
    scene: Scene, manager: NotifySocket
) -> None:
    scene.seen = vitals(redis_away=True, kafka_away=True)
    scene.pass_time(STEP_S * 3)
    told = [line for line in manager.heard if line.startswith("STATUS=")]
    assert told == ["STATUS=0 running or claimed, 0 waiting; away: Kafka, Redis"]


def test_outside_systemd_a_stall_is_logged_all_the_same() -> None:
    scene = Scene()
    scene.progress.tick(LOOP)
    scene.pass_time(LIMIT_S + STEP_S)
    assert [event["event"] for event in scene.events] == ["worker.stalled"]


def test_stacks_show_places_and_no_values_and_are_bounded() -> None:
    secret = "-".join(["4111", "1111"])

    def deeper(left: int, card: str) -> list[str]:
        return deeper(left - 1, card) if left else thread_stacks()

    line = deeper(100, secret)[0]
    assert line.startswith("MainThread: health/watch.py:")
    assert "deeper" in line
    assert secret not in line
    assert line.count(" < ") == MAX_FRAMES
    assert line.endswith("…")
