"""Two redrives without a journal at the same time: what can be known of the other is known."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.endings import print_ending
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import RedriveEnding
from consumer.dlq.redrive.unjournaled import send_back
from feedback.errors import ExitCode
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import load
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.conftest import MakeScene
from tests.consumer.dlq.redrive.scene import Scene
from tests.consumer.dlq.redrive.test_foreign import HANDLER, foreign

LETTERS = 4


@pytest.fixture
def scene(make_scene: MakeScene, tmp_path: Path) -> Scene:
    """Return a scene with letters of another system, and without a journal."""
    scene = make_scene()
    topic = scene.stage.topics[HANDLER]
    scene.box.make(HANDLER)
    write(scene.kafka, scene.box.name(HANDLER), [foreign(topic, n) for n in range(LETTERS)])
    scene.config = scene.stage.config(journal={"url": f"sqlite:///{tmp_path}/none.db"})
    return scene


def in_topic(scene: Scene) -> Counter[str]:
    """Return how often each letter's request was sent back."""
    records = scene.records(scene.stage.topics[HANDLER])
    return Counter(dict(one.headers)["onceward-request-id"].decode() for one in records)


def test_the_second_leaves_what_the_first_has_sent_and_names_what_both_have(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = RedrivePlan(LetterFilter(), dlqs=frozenset([scene.box.name(HANDLER)]))
    settings, real = load(scene.config), KafkaWriter.write
    first: list[RedriveEnding] = []

    def write_late(writer: KafkaWriter, records: list[Any]) -> Any:
        if not first:  # all of the first redrive, between the second's look and its write
            monkeypatch.setattr(KafkaWriter, "write", real)
            first.append(send_back(settings, plan, by="ann", pace=RedrivePace()))
        return real(writer, records)

    monkeypatch.setattr(KafkaWriter, "write", write_late)
    second = send_back(
        settings, plan, by="bob", pace=RedrivePace(rate=2.0)
    )  # a letter in each batch

    assert (first[0].counts["sent"], first[0].twice_count) == (LETTERS, 0)
    assert (second.counts["sent"], second.counts["sent_before"]) == (1, LETTERS - 1)
    (double,) = (name for name, count in in_topic(scene).items() if count > 1)
    assert (second.twice, second.twice_count) == ([double], 1)

    assert print_ending(first[0], as_json=False) == ExitCode.FINE
    assert "another redrive at this time may send them too" in capsys.readouterr().out
    assert print_ending(second, as_json=False) == ExitCode.BAD_ANSWER
    said = capsys.readouterr().out
    assert "1 letter of them another redrive has sent too" in said and double in said
    print_ending(second, as_json=True)
    assert json.loads(capsys.readouterr().out)["sent_twice_ids"] == [double]


def test_of_two_real_ones_the_doubles_are_named(scene: Scene) -> None:
    command = ("redrive", "--dlq", scene.box.name(HANDLER), "--no-journal", "--yes", "--json")
    running = [scene.start(*command) for _ in range(2)]
    ends = [one.ended() for one in running]
    said = [json.loads(out) for _, out, _ in ends]
    sent = in_topic(scene)
    assert len(sent) == LETTERS and sum(sent.values()) == sum(one["sent"] for one in said)
    doubles = {name for name, count in sent.items() if count > 1}
    assert doubles == {name for one in said for name in one["sent_twice_ids"]}
    codes = {code for code, *_ in ends}
    assert codes == ({0} if not doubles else codes & {0, 1}) and (1 in codes) is bool(doubles)
