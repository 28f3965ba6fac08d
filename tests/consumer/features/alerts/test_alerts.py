"""The thread: real webhooks hear what they should, and one that hangs costs nobody anything."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from consumer.features.alerts import grouping, message
from consumer.features.alerts.alerts import Alerts
from consumer.features.alerts.alerts import make as make_alerts
from consumer.features.alerts.grouping import Alert
from consumer.features.alerts.message import WebhookQueue
from consumer.features.outgoing.record_writer import DEAD_LETTERS, WRITTEN
from consumer.journal import Row
from feedback.clock import monotonic_s
from feedback.observer import Observer
from feedback.settings.settings import load
from onceward.servers.ports import free_port
from tests.consumer.cores import core_of
from tests.consumer.features.dead_letters.samples import failed
from tests.eventually import eventually
from tests.kit.webhook import LIMIT_S, SECRET, Hook

MakeAlerts = Callable[..., Alerts]


class Counting(Observer):
    """Counts what became of alerts."""

    def __init__(self) -> None:
        self.became: Counter[str] = Counter()

    def counted(self, what: str, label: str, count: int) -> None:
        self.became[label] += count


class Redis:
    """A Redis that is away."""

    prefix = "onceward:g:"


@pytest.fixture
def metrics() -> Counting:
    return Counting()


@pytest.fixture
def make(metrics: Counting, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeAlerts]:
    """Return a factory of alerts that were started, with short times."""
    monkeypatch.setattr(grouping, "GATHER_S", 0.1)
    monkeypatch.setattr(message, "FIRST_PAUSE_S", 0.1)
    started: list[Alerts] = []

    def made(**section: Any) -> Alerts:
        settings = load(kafka={"group": "g"}, alerts=section)
        core = core_of(settings, store=Redis(), redis_away=lambda: True, observers=[metrics])
        (alerts,) = make_alerts(core)
        assert isinstance(alerts, Alerts)
        alerts.start()
        started.append(alerts)
        return alerts

    yield made
    for one in started:
        one.stop(LIMIT_S)


def waits(alerts: Alerts, topic: str, count: int, age_s: float) -> None:
    since_s = monotonic_s() - age_s + 0.5  # whatever this test takes
    alerts.waiting(DEAD_LETTERS, topic, count, since_s, is_ours=True)


def rows(*codes: str, topic: str = "payments") -> list[Row]:
    return [failed(f"id-{at}", code=code, topic=topic) for at, code in enumerate(codes)]


def test_the_text_of_an_error_that_nobody_declared_is_not_passed_on(
    make: MakeAlerts, hook: Hook
) -> None:
    quoting = failed("a", code="HANDLER_ERROR", message="ValueError: invalid literal: '4111-1111'")
    make(webhook_url=hook.url).done(DEAD_LETTERS, WRITTEN, [quoting])
    (first,) = hook.of_kind("first")
    assert "ValueError" in first["detail"]
    assert "4111" not in str(hook.posted)


def test_a_crowd_of_failures_is_one_message(
    make: MakeAlerts, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long these calls take, they are gathered; its end posts them.
    monkeypatch.setattr(grouping, "GATHER_S", 3600.0)
    alerts = make(webhook_url=hook.url, rate_per_minute=100)
    for _ in range(3):
        alerts.done(DEAD_LETTERS, WRITTEN, rows(*["BUSY"] * 50, "LOST"))
    alerts.stop(LIMIT_S)
    (first,) = hook.of_kind("first")
    (rate,) = hook.of_kind("rate")
    assert first["codes"] == {"BUSY": 150, "LOST": 3}
    assert (first["count"], first["request_ids"][0]) == (153, "id-0")
    assert rate["per_minute"] == 153
    assert "the bank is on fire" in first["detail"]
    assert len(hook.posted) == 1


def test_each_topic_has_its_webhook_and_one_may_have_none(
    make: MakeAlerts, hook: Hook, other_hook: Hook, metrics: Counting
) -> None:
    by_topic = {"orders": other_hook.url, "quiet": ""}
    alerts = make(webhook_url=hook.url, by_topic=by_topic, age_s=60)
    for topic in ("quiet", "orders", "payments", "orders.g.dlq"):
        alerts.paused(topic, reason="9 of 10 failed", by="guard")
        alerts.hindered(DEAD_LETTERS, topic, "it does not exist")
        waits(alerts, topic, 5, 61.0)
        waits(alerts, topic, 5, 59.0)
        waits(alerts, topic, 0, 99.0)
    eventually(lambda: metrics.became["sent"] == 9, timeout_s=LIMIT_S, what="9 alerts")
    kinds = ["age", "hindered", "paused"]
    told, told_there = (
        sorted((one["topic"], one["kind"]) for one in each.alerts) for each in (hook, other_hook)
    )
    assert told == [("payments", kind) for kind in kinds]
    assert told_there == [(topic, kind) for topic in ("orders", "orders.g.dlq") for kind in kinds]


@pytest.mark.parametrize(("age_s", "is_told"), [(60.0, True), (61.0, False), (0.0, False)])
def test_only_what_has_waited_for_longer_than_is_usual_is_told(
    make: MakeAlerts, hook: Hook, age_s: float, is_told: bool
) -> None:
    alerts = make(webhook_url=hook.url, age_s=age_s)
    waits(alerts, "payments", 5, 61.0)
    waits(alerts, "orders", 0, 99.0)
    alerts.stop(LIMIT_S)
    assert [one["topic"] for one in hook.alerts] == ["payments"] * is_told


def test_a_webhook_that_hangs_costs_its_callers_nothing_and_is_given_up(
    make: MakeAlerts, hook: Hook, metrics: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.features.alerts.alerts.TIMEOUTS_S", (0.2, 0.2))
    # However long the calls below take: it is tried until the webhook answers, and none is let go.
    monkeypatch.setattr(message, "TRIES", 10**6)
    monkeypatch.setattr(message, "MOST_WAITING", 10**6)
    monkeypatch.setattr(message, "LONGEST_PAUSE_S", 1.0)
    hook.hangs = True
    alerts = make(webhook_url=hook.url, every_s=0.1)
    alerts.paused("payments", reason="x")
    eventually(lambda: hook.asked, timeout_s=LIMIT_S, what="a post that hangs")
    began_s = time.monotonic()
    for number in range(10_000):
        alerts.done(DEAD_LETTERS, WRITTEN, rows(f"CODE_{number % 50}"))
        alerts.hindered(DEAD_LETTERS, "payments", "away")
    # Each call that waited for the webhook would take 0.2 s: more than an hour of them.
    assert time.monotonic() - began_s < 60
    eventually(lambda: metrics.became["failed"] > 1, timeout_s=LIMIT_S, what="failed posts")
    hook.hangs = False
    (paused,) = hook.of_kind("paused")
    assert paused["detail"] == "x"


def test_an_answer_that_never_ends_is_not_waited_for(
    make: MakeAlerts, hook: Hook, metrics: Counting
) -> None:
    hook.trickles = True
    make(webhook_url=hook.url).paused("payments", reason="x")
    eventually(lambda: metrics.became["sent"] == 1, timeout_s=LIMIT_S, what="a message")
    assert metrics.became["failed"] == 0


@pytest.mark.parametrize("answers", [[200], [503, 500, 200], [302], [404] * 3])
def test_no_log_has_the_address_whatever_happens(
    make: MakeAlerts,
    hook: Hook,
    answers: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.answers = answers
    made = [make(webhook_url=hook.url)]
    made.append(make(webhook_url=f"http://127.0.0.1:{free_port()}/{SECRET}"))
    for alerts in made:
        alerts.paused("payments", reason="x")
    hook.of_kind("paused")
    for alerts in made:
        alerts.stop(LIMIT_S)
    told = "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records)
    assert "webhook.failed" in told
    assert SECRET not in told
    assert SECRET not in repr(load(alerts={"webhook_url": hook.url, "by_topic": {"a": hook.url}}))


def test_at_its_end_it_tells_what_still_waits(
    make: MakeAlerts, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "GATHER_S", 3600.0)
    alerts = make(webhook_url=hook.url)
    alerts.paused("payments", reason="x")
    assert hook.alerts == []
    alerts.stop(LIMIT_S)
    assert [one["kind"] for one in hook.alerts] == ["paused"]
    assert not alerts._thread.is_alive()


def test_its_end_waits_for_no_webhook_that_hangs(
    make: MakeAlerts, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.features.alerts.alerts.TIMEOUTS_S", (100.0, 100.0))
    hook.hangs = True
    alerts = make(webhook_url=hook.url)
    alerts.paused("payments", reason="x")
    eventually(lambda: hook.asked, timeout_s=LIMIT_S, what="a post that hangs")
    began_s = time.monotonic()
    alerts.stop(0.2)
    # It would take 100 s until the post is given up.
    assert time.monotonic() - began_s < 50
    hook.free.set()


def test_what_is_another_workers_to_tell_is_not_told_here(hook: Hook) -> None:
    asked: list[str] = []
    made: list[str] = []

    def is_mine(alert: Alert) -> bool:
        asked.append(alert.topic)
        return False

    def make_queue(url: str) -> WebhookQueue:
        made.append(url)
        raise AssertionError("nobody is to be told")

    section = load(alerts={"webhook_url": hook.url}).alerts
    alerts = Alerts(section, url_of=section.webhook_of, queue=make_queue, is_mine=is_mine)
    alerts.paused("payments", reason="x")
    alerts.start()
    alerts.stop(LIMIT_S)
    assert (asked, made) == (["payments"], [])


def test_without_a_webhook_there_is_no_thread() -> None:
    before = set(threading.enumerate())
    for section in ({}, {"by_topic": {"payments": ""}}):
        assert make_alerts(core_of(load(alerts=section), store=Redis(), observers=[])) == ()
    assert set(threading.enumerate()) <= before


def test_a_worker_loads_no_http_client_before_it_has_something_to_post() -> None:
    asked = (
        "import sys, consumer.ops.commands, consumer.ops.service; print('requests' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
