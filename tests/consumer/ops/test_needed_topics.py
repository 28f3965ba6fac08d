"""`onceward-worker topics`: which topics handlers need, found missing and made on a real broker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from consumer.handlers.backoff import Tiers
from consumer.handlers.declaration import DeliveryKind
from consumer.ops.needed_topics import READS, WRITES, NeededTopic, needed_topics, topic_fault
from feedback.kafka.topic_facts import TopicFacts
from feedback.settings.settings import load
from tests.consumer.conftest import MakeStage
from tests.consumer.running import command
from tests.consumer.samples import payments
from tests.consumer.stage import Stage

GROUP = {"group": "g"}


def test_topics_are_those_of_requests_and_then_those_beside_them() -> None:
    settings = load(kafka=GROUP, worker={"dead_letters": "keep"})
    handlers = [
        payments(
            topic="pay", retry_on=(OSError,), retries=Tiers.parse("5s x 2"), outcome_topic="paid"
        ),
        payments(topic="mail", delivery=DeliveryKind.AT_LEAST_ONCE),
    ]
    found = {one.name: one for one in needed_topics(settings, handlers)}
    assert list(found)[:2] == ["pay", "mail"]
    assert set(found) == {
        "pay",
        "mail",
        "pay.g.retry.5s",
        "pay.g.dlq",
        "mail.g.dlq",
        "paid",
        "mail.g.wait",
    }
    assert [name for name, one in found.items() if one.is_compacted] == ["mail.g.wait"]
    assert {one.like for one in found.values()} == {"pay", "mail"}


def test_dropped_failures_need_no_topic() -> None:
    settings = load(kafka=GROUP, worker={"dead_letters": "drop"})
    assert [one.name for one in needed_topics(settings, [payments(topic="pay")])] == ["pay"]


WAITS = NeededTopic("w", "", "r", is_compacted=True, rights=READS | WRITES)


@pytest.mark.parametrize(
    ("policy", "rights", "fault"),
    [
        ("delete", "READ", "not compacted: set cleanup.policy=compact"),
        ("compact,delete", "READ WRITE", ""),
        ("compact", "READ", "this user may not WRITE it: add an ACL"),
        ("compact", "DESCRIBE", "this user may not READ and WRITE it: add an ACL"),
        ("compact", "", ""),
        (None, "READ WRITE", ""),
    ],
)
def test_a_topics_policy_and_rights_are_judged_where_kafka_says_them(
    policy: str | None, rights: str, fault: str
) -> None:
    settings = {} if policy is None else {"cleanup.policy": policy}
    assert topic_fault(WAITS, TopicFacts(1, 1, settings, frozenset(rights.split()))) == fault


def test_a_topic_that_is_an_outcome_and_a_source_needs_both_rights() -> None:
    handlers = [payments(topic="a", outcome_topic="b"), payments(topic="b")]
    settings = load(kafka=GROUP, worker={"dead_letters": "drop"})
    found = {one.name: one for one in needed_topics(settings, handlers)}
    assert found["a"].rights == READS
    assert (found["b"].purpose, found["b"].rights) == ("requests", READS | WRITES)


def _run(stage: Stage, config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    ran = command("topics", "--json", *arguments, "--config", str(config), **stage.variables())
    assert "Traceback" not in ran.stderr
    return ran


def _partitions(ran: subprocess.CompletedProcess[str]) -> dict[str, int]:
    return {one["topic"]: one["partitions"] for one in map(json.loads, ran.stdout.splitlines())}


def test_missing_topics_are_listed_and_made(make_stage: MakeStage) -> None:
    stage = make_stage()
    there, config = stage.topics["work"], stage.config(worker={"dead_letters": "keep"})
    stage.topics["work"] = missing = f"{there}-missing"
    letters = f"{missing}.{stage.group}.dlq"
    listed = _run(stage, config)
    assert (listed.returncode, _partitions(listed)) == (1, {missing: 0, letters: 0})
    made = _run(stage, config, "--create", "--partitions", "3")
    assert (made.returncode, _partitions(made)) == (0, {missing: 3, letters: 3})
    for one in map(json.loads, made.stdout.splitlines()):
        assert {*one["rights"]} >= {"READ", "WRITE"}
        assert one["settings"]["cleanup.policy"] == "delete"
    again = _run(stage, config, "--create")
    assert (again.returncode, _partitions(again)) == (0, {missing: 3, letters: 3})
    assert not any(json.loads(line)["created"] for line in again.stdout.splitlines())


def test_options_of_create_need_it(make_stage: MakeStage) -> None:
    stage = make_stage()
    refused = _run(stage, stage.config(), "--partitions", "3")
    assert (refused.returncode, refused.stdout) == (2, "")
