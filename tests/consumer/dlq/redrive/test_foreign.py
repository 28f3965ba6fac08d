"""Letters of other systems go back once, with the journal and without one."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.redrive.record import sending_of, sent_count
from consumer.dlq.redrive.unjournaled import verdict_without_journal
from consumer.journal.redrive.redrive_rule import Redrivable
from feedback.records.envelope import NULL_HEADER, NullHeader, Record
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.conftest import MakeScene
from tests.consumer.dlq.redrive.scene import Scene
from tests.consumer.dlq.samples import letter

# The worker's group never reads this topic: nothing runs.
HANDLER = "repairable"


def foreign(topic: str, offset: int = 0, *more: tuple[str, bytes]) -> Record:
    """Return a letter of Kafka Connect, of a record with a header that is null."""
    headers = (
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.partition", b"0"),
        ("__connect.errors.offset", str(offset).encode()),
        ("theirs", NULL_HEADER),
        *more,
    )
    return Record("their-dlq", 0, offset, 1_700_000_005_000, b"k", b'{"n":1}', headers)


@pytest.mark.parametrize("is_journaled", [True, False])
def test_it_is_sent_once_unless_told_otherwise_and_a_null_header_stays_null(
    make_scene: MakeScene, is_journaled: bool, tmp_path: Path
) -> None:
    scene = make_scene()
    topic = scene.stage.topics[HANDLER]
    scene.box.make(HANDLER)
    theirs = scene.box.name(HANDLER)
    write(scene.kafka, theirs, [foreign(topic), foreign(topic, 1)])
    how = ["--unknown"]
    if not is_journaled:
        how = ["--no-journal"]
        scene.config = scene.stage.config(journal={"url": f"sqlite:///{tmp_path}/none.db"})

    def redriven(*words: str) -> dict[str, Any]:
        return scene.said("redrive", "--dlq", theirs, *how, *words)

    assert redriven("--dry-run")["sent"] == 2 and _sent(scene, topic) == 0
    assert redriven()["sent"] == 2 and _sent(scene, topic) == 2
    again = redriven()
    assert (again["sent"], again["refused"]) == (0, {"sent_before": 2})
    words = ("redrive", "--dlq", theirs, *how, "--again", "--dry-run")
    assert [one.strip() for one in scene.dlq(*words).stdout.splitlines()[1:]] == [
        "nothing says whether 2 letters without a journal row have run",
        "2 letters were sent back already: they may run twice",
    ]
    assert redriven("--again")["sent"] == 2 and _sent(scene, topic) == 4
    for one in scene.records(topic):
        assert isinstance(dict(one.headers)["theirs"], NullHeader)
    case = json.loads(_shown(scene, theirs, is_journaled=is_journaled))
    assert {"name": "theirs", "value": None} in case["letters"][0]["headers"]


def test_what_was_discarded_is_listed_no_more_though_the_journal_has_no_row(
    make_scene: MakeScene,
) -> None:
    scene = make_scene()
    topic = scene.stage.topics[HANDLER]
    scene.box.make(HANDLER)
    theirs = scene.box.name(HANDLER)
    write(scene.kafka, theirs, [foreign(topic), foreign(topic, 1)])

    def listed(*words: str) -> list[str]:
        *letters, _ = scene.dlq("list", "--dlq", theirs, "--json", *words).stdout.splitlines()
        return [json.loads(one)["state"] for one in letters]

    name = json.loads(scene.dlq("list", "--dlq", theirs, "--json").stdout.splitlines()[0])
    assert listed() == ["unknown", "unknown"]
    scene.said("discard", "--dlq", theirs, "--id", name["request_id"], "--because", "refunded")
    assert listed() == ["unknown"] and sorted(listed("--all")) == ["discarded", "unknown"]


def test_what_was_sent_back_meanwhile_is_not_discarded_unless_told_otherwise(
    make_scene: MakeScene,
) -> None:
    scene = make_scene()
    topic = scene.stage.topics[HANDLER]
    scene.box.make(HANDLER)
    theirs = scene.box.name(HANDLER)
    write(scene.kafka, theirs, [foreign(topic)])
    found = json.loads(scene.dlq("list", "--dlq", theirs, "--json").stdout.splitlines()[0])
    name = found["request_id"]
    assert scene.said("redrive", "--dlq", theirs, "--unknown")["sent"] == 1
    discard = ("discard", "--dlq", theirs, "--because", "refunded")
    said = scene.said(*discard, "--id", name, code=1)
    assert (said["discarded"], said["refused"]) == (0, {"sent_before": 1})
    assert said["requests"] == {name: "sent_before"}
    assert [one["action"] for one in scene.actions()] == ["redrive"]
    assert "it was sent back already" in scene.dlq(*discard, "--yes").stdout
    assert scene.said(*discard, "--again")["discarded"] == 1


def _sent(scene: Scene, topic: str) -> int:
    return len(scene.records(topic))


def _shown(scene: Scene, theirs: str, *, is_journaled: bool) -> str:
    where = ("--dlq", theirs, "--json", *(() if is_journaled else ("--no-journal",)))
    first = json.loads(scene.dlq("list", *where).stdout.splitlines()[0])
    return scene.dlq("show", first["request_id"], *where).stdout


def test_ours_are_left_where_no_journal_is_asked() -> None:
    assert verdict_without_journal(letter()) is Redrivable.NEEDS_JOURNAL
    theirs = letter_of(foreign("orders"))
    assert verdict_without_journal(theirs) is Redrivable.SEND_UNKNOWN
    assert verdict_without_journal(theirs, was_sent=True) is Redrivable.SENT_BEFORE
    again = verdict_without_journal(theirs, was_sent=True, sends_again=True)
    assert again is Redrivable.SEND_UNKNOWN


def test_what_fails_again_has_a_letter_that_counts_the_times() -> None:
    first = letter_of(foreign("orders"))
    back = sending_of(
        first, None, group="test", redrive_id="r", by="zoe", attempt=0, deadline_at=5
    ).outgoing
    assert sent_count(back.headers) == (first.request_id, 1)
    kept = tuple(one for one in back.headers if one[0] != "theirs")
    second = letter_of(foreign("orders", 7, *kept))
    assert (second.request_id, second.failure.redrive_count) == (first.request_id, 1)
    assert verdict_without_journal(second, max_redrives=1) is Redrivable.TOO_OFTEN


@pytest.mark.parametrize("count", [b"", b"x", b"-1", b"9" * 30])
def test_a_count_that_is_none_marks_nothing(count: bytes) -> None:
    assert sent_count((("DLQ_REDRIVE_ID", b"r"), ("DLQ_REDRIVE_COUNT", count))) is None
    assert sent_count((("DLQ_REDRIVE_COUNT", b"1"),)) is None
