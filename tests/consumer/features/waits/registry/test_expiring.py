"""What expires, what does not, and what a letter says."""

from __future__ import annotations

from feedback.clock import epoch_ms
from tests.consumer.features.waits.registry.scene import GONE, Scene
from tests.eventually import eventually

LATER_S = 3600.0
ALIVE = "host-2-alive"


def test_what_expired_is_a_dead_letter_and_ended(scene: Scene) -> None:
    scene.write([scene.wait("a"), scene.wait("b", expires_in_s=LATER_S), scene.wait("c")])
    scene.end(["c"])
    done = scene.once()
    assert done.wait() == 0, done.tail
    assert scene.letters() == {"a": 1}
    assert scene.tombstones() == {"a": 1, "c": 1}
    assert (scene.waiting(), scene.begun()) == ({"b"}, set())


def test_a_letter_has_what_was_sent_and_what_happened(scene: Scene) -> None:
    sent = [("h", b"1"), ("h", b"\xff\x00"), ("traceparent", b"00-1")]
    value = b"\x00\xffbinary"
    record = scene.wait("a", headers=sent, key=b"\x00\xfe", value=value, generation=3, offset=2**40)
    scene.write([record])
    before = epoch_ms()
    assert scene.once().wait() == 0
    (letter,) = scene.records(scene.dlq)
    said = dict(letter.headers)
    assert (letter.key, letter.value, letter.partition) == (b"\x00\xfe", value, 0)
    assert [one for one in letter.headers if one[0] in ("h", "traceparent")] == sent
    failed_at = int(said.pop("DLQ_FAILED_AT"))
    assert before <= failed_at <= epoch_ms()
    assert (
        said.items()
        >= {
            "ORIGINAL_TOPIC": scene.topic.encode(),
            "ORIGINAL_PARTITION": b"0",
            "ORIGINAL_OFFSET": b"%d" % 2**40,
            "ORIGINAL_TIMESTAMP": b"%d" % record.record.timestamp_ms,
            "ORIGINAL_KEY": "\x00\ufffd".encode(),
            "DLQ_REQUEST_ID": b"a",
            "DLQ_REASON": b"EXPIRED",
            "DLQ_STAGE": b"wait",
            "DLQ_ATTEMPTS": b"3",
            "DLQ_FIRST_FAILED_AT": b"%d" % failed_at,
            "DLQ_CONSUMER_GROUP": scene.group.encode(),
            "onceward-request-id": b"a",
        }.items()
    )
    assert not [name for name in said if name in ("onceward-expires", "onceward-generation")]


def test_a_null_value_and_a_null_key_stay_null(scene: Scene) -> None:
    scene.write([scene.wait("a", key=None, value=None)])
    assert scene.once().wait() == 0
    (letter,) = scene.records(scene.dlq)
    assert (letter.key, letter.value) == (None, None)


def test_an_earlier_place_stays_the_first(scene: Scene) -> None:
    earlier = [("ORIGINAL_TOPIC", b"first"), ("DLQ_FIRST_FAILED_AT", b"5"), ("DLQ_REASON", b"OLD")]
    scene.write([scene.wait("a", headers=earlier)])
    assert scene.once().wait() == 0
    (letter,) = scene.records(scene.dlq)
    values = {name: [v for n, v in letter.headers if n == name] for name, _ in letter.headers}
    assert values["ORIGINAL_TOPIC"] == [b"first"]
    assert values["DLQ_FIRST_FAILED_AT"] == [b"5"]
    assert values["DLQ_REASON"] == [b"EXPIRED"]


def test_a_living_holder_keeps_what_expired_until_it_is_gone(scene: Scene) -> None:
    scene.write([scene.wait("held", holder=ALIVE), scene.wait("dead", holder=GONE)])
    scene.beat(ALIVE)
    registry = scene.start()

    def is_said() -> bool:
        return bool(scene.letters()) and bool(registry.events("waits.held_past_expiry"))

    eventually(is_said)
    assert scene.letters() == {"dead": 1}
    scene.die(ALIVE)
    assert scene.await_letters({"held"}) == {"dead": 1, "held": 1}
    assert len(registry.events("waits.held_past_expiry")) == 1


def test_nobody_is_no_holder(scene: Scene) -> None:
    scene.write([scene.wait("given-back", holder=""), scene.wait("by-hand", holder=None)])
    assert scene.once(redis={"heartbeat_ttl_s": LATER_S}).wait() == 0
    assert scene.letters() == {"given-back": 1, "by-hand": 1}


def test_a_heartbeat_that_is_missing_for_a_moment_is_no_death(scene: Scene) -> None:
    scene.write([scene.wait("held", holder=ALIVE)])
    registry = scene.start(redis={"heartbeat_ttl_s": 60})
    scene.await_waiting({"held"})
    scene.beat(ALIVE)
    eventually(lambda: registry.events("waits.held_past_expiry"))
    assert registry.stop() == 0
    assert scene.letters() == {}


def test_a_letter_is_listed_and_sent_back(scene: Scene) -> None:
    scene.write([scene.wait("a")])
    assert scene.once().wait() == 0
    listed = scene.dlq_command("list", "--reason", "EXPIRED", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"request_id": "a"' in listed.stdout
    scene.dlq_command("redrive", "a", "--yes")
    assert scene.records(scene.topic) == []
    sent = scene.dlq_command("redrive", "a", "--unknown", "--yes")
    assert sent.returncode == 0, sent.stderr
    (record,) = scene.records(scene.topic)
    assert (record.key, record.value) == (b"card-1", b'{"amount": 5}')
    assert "DLQ_WAIT_RECORD" not in dict(record.headers)


def test_what_was_sent_back_waits_and_expires_again(scene: Scene) -> None:
    scene.write([scene.wait("a")])
    assert scene.once().wait() == 0
    scene.write([scene.wait("a", offset=8)])
    assert scene.once().wait() == 0
    assert (scene.letters(), scene.tombstones()) == ({"a": 2}, {"a": 2})
