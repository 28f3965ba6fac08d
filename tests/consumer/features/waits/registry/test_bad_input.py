"""Wait topics and records that are not as they should be: a word about each, and nothing lost."""

from __future__ import annotations

from random import Random

from consumer.features.waits.wait_record import encode_wait
from feedback.clock import epoch_ms
from feedback.kafka.outgoing import Outgoing
from tests.consumer.features.waits.registry.conftest import MakeScene
from tests.consumer.features.waits.registry.scene import Scene
from tests.consumer.running import RunningWorker

FAR_PAST_S = -50 * 365 * 86_400.0


def _waits(scene: Scene, key: bytes | None, value: bytes | None, **headers: bytes) -> Outgoing:
    named = tuple((name.replace("_", "-"), raw) for name, raw in headers.items())
    return Outgoing(scene.wait_topic, 0, key, value, named)


def test_malformed_records_are_said_and_passed(scene: Scene) -> None:
    scene.send(
        [
            _waits(scene, b"no-expiry", b"secret-1"),
            _waits(scene, b"bad-expiry", b"secret-2", onceward_expires=b"soon"),
            _waits(scene, b"bad id", b"secret-4", onceward_expires=b"5"),
            _waits(scene, b"\xff", None),
        ]
    )
    scene.write([scene.wait("a")])
    done = scene.once()
    assert done.wait() == 0
    said = done.events("waits.malformed")
    assert [(one["offset"], bool(one["reason"])) for one in said] == [(n, True) for n in range(4)]
    assert "secret" not in done.stderr
    assert scene.letters() == {"a": 1}


def test_a_record_by_hand_needs_an_expiry_and_no_more(scene: Scene) -> None:
    scene.send([_waits(scene, b"by-hand", b"value", onceward_expires=b"5")])
    assert scene.once().wait() == 0
    (letter,) = scene.records(scene.dlq)
    said = dict(letter.headers)
    assert (letter.key, letter.value) == (None, b"value")
    assert (said["ORIGINAL_TOPIC"], said["DLQ_ATTEMPTS"]) == (scene.topic.encode(), b"1")


def test_a_tombstone_without_a_record_ends_nothing(scene: Scene) -> None:
    scene.end(["never-there"])
    assert scene.once().wait() == 0
    assert (scene.letters(), scene.waiting()) == ({}, set())


def test_an_expiry_long_past_and_one_far_ahead(scene: Scene) -> None:
    scene.write([scene.wait("past", expires_in_s=FAR_PAST_S)])
    scene.send([_waits(scene, b"far", b"v", onceward_expires=b"9223372036854775807")])
    assert scene.once().wait() == 0
    assert (scene.letters(), scene.waiting()) == ({"past": 1}, {"far"})


def test_an_older_record_and_its_tombstone_change_nothing_newer(scene: Scene) -> None:
    scene.write([scene.wait("a", expires_in_s=3600)])
    scene.end(["a"])
    scene.write([scene.wait("a", expires_in_s=7200, generation=2)])
    assert scene.once().wait() == 0
    (row,) = scene.query(
        'SELECT "offset", generation FROM onceward_wait WHERE "group" = :g', g=scene.group
    )
    assert row == {"offset": 2, "generation": 2}


def test_records_of_a_group_with_a_longer_name_are_left_alone(make_scene: MakeScene) -> None:
    scene = make_scene()
    longer = f"x.{scene.group}"
    foreign = encode_wait(scene.wait("theirs"), group=longer, partition=0)
    scene.create(foreign.topic, configs={"cleanup.policy": "compact"})
    scene.send([foreign])
    done = scene.once()
    assert done.wait() == 0
    assert len(done.events("waits.malformed")) == 1
    assert scene.records(foreign.topic)[-1].value is not None


def test_a_topic_that_is_named_and_does_not_exist_is_a_clear_error(make_scene: MakeScene) -> None:
    done = make_scene().once("--topic", "no-such-topic")
    assert done.wait() == 3
    assert "there is no topic no-such-topic" in done.stderr


def test_what_is_wrong_with_a_wait_topic_is_said(make_scene: MakeScene) -> None:
    scene = make_scene()
    plain, unwaited = f"{scene.topic}-plain", f"{scene.topic}-unwaited"
    for name in (plain, unwaited):
        scene.create(name, partitions=3)
    scene.create(f"{plain}.{scene.group}.wait", partitions=2)
    done = scene.once("--topic", plain, "--topic", unwaited)
    assert done.wait() == 0, done.tail
    assert _topics(done, "waits.not_compacted") == [f"{plain}.{scene.group}.wait"]
    assert _topics(done, "waits.other_partitions") == [f"{plain}.{scene.group}.wait"]
    assert _topics(done, "waits.topic_missing") == [f"{unwaited}.{scene.group}.wait"]


def test_without_tables_it_says_what_to_do(make_scene: MakeScene) -> None:
    scene = make_scene()
    done = scene.once(registry={"url": f"{scene.database_url}.other"})
    assert done.wait() == 2
    assert "onceward-worker migrate" in done.stderr


def _topics(done: RunningWorker, event: str) -> list[str]:
    return [one["topic"] for one in done.events(event)]


def test_a_letter_too_large_for_its_topic_holds_up_nobody_and_goes_when_there_is_room(
    scene: Scene,
) -> None:
    scene.create(scene.dlq, configs={"max.message.bytes": "5000"})
    scene.write([scene.wait("large", value=Random(1).randbytes(6_000)), scene.wait("small")])
    done = scene.once()
    assert done.wait() == 1
    (said,) = done.events("waits.letter_refused")
    assert said["request_id"] == "large"
    assert (scene.letters(), scene.begun()) == ({"small": 1}, {"large"})
    scene.configure(scene.dlq, {"max.message.bytes": "100000"})
    assert scene.once().wait() == 0
    assert (scene.letters(), scene.begun()) == ({"small": 1, "large": 1}, set())
    assert scene.tombstones() == {"small": 1, "large": 1}


def test_a_clock_that_is_minutes_ahead_is_said_once(scene: Scene) -> None:
    ahead_ms = 600_000
    waits = [scene.wait(name, expires_in_s=3600) for name in ("a", "b")]
    records = [encode_wait(one, group=scene.group, partition=0) for one in waits]
    scene.send_at(records, epoch_ms() + ahead_ms)
    done = scene.once()
    assert done.wait() == 0
    (said,) = done.events("waits.clocks_apart")
    assert 0.9 * ahead_ms < 1000 * said["ahead_s"] <= ahead_ms
    assert scene.waiting() == {"a", "b"}


def test_a_request_whose_record_retention_has_taken_is_said_and_forgotten(scene: Scene) -> None:
    scene.write([scene.wait("gone", expires_in_s=3600), scene.wait("there", expires_in_s=3600)])
    assert scene.once().wait() == 0
    scene.forget_before(scene.wait_topic, 1)
    scene.change('UPDATE onceward_wait SET expires_at = 5 WHERE "group" = :g', g=scene.group)
    done = scene.once()
    assert done.wait() == 0
    assert [one["request_id"] for one in done.events("waits.record_gone")] == ["gone"]
    assert (scene.letters(), scene.waiting()) == ({"there": 1}, set())
