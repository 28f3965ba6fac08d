"""A person says yes to the letters that were counted; what fails after the question is not among
them."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine, NullPool, create_engine, update

from consumer.dlq import discard_command
from consumer.dlq.redrive import commands
from consumer.journal import JournalState
from consumer.journal.tables import request
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.test_foreign import foreign
from tests.consumer.dlq.redrive.test_taken_once import theirs as theirs

pytestmark = pytest.mark.waits


@pytest.mark.parametrize(
    "words",
    [
        ("redrive", "--unknown"),
        ("redrive", "--no-journal"),
        ("discard", "--because", "refunded"),
    ],
)
def test_what_fails_between_the_question_and_the_yes_is_not_among_its_letters(
    planted: Planted,
    theirs: str,
    dlq: Dlq,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    asked: list[str] = []

    def says_yes(question: str) -> None:
        asked.append(question)
        kafka = planted.settings.kafka.bootstrap_servers
        write(kafka, theirs, [foreign(planted.topic, number) for number in (1, 2)])

    monkeypatch.setattr(commands, "require_yes", says_yes)
    monkeypatch.setattr(discard_command, "require_yes", says_yes)
    said = []
    for _ in range(2):
        done = dlq(planted.config, *words, "--dlq", theirs, "--json")
        assert done.code == 0, done.stderr
        assert ("without a journal row" in done.stderr) == (words[0] == "redrive")
        found = json.loads(done.stdout)
        said.append(found.get("sent", found.get("discarded")))
    assert [one.split()[2 if words[0] == "redrive" else 1] for one in asked] == ["1", "2"]
    assert said == [1, 2]


def test_one_that_fails_again_between_the_question_and_the_yes_is_left(
    planted: Planted, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, other = "request-00000001", "request-00000002"

    def says_yes(question: str) -> None:
        engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
        with engine.begin() as connection:
            of_it = update(request).where(request.c.request_id == again)
            connection.execute(of_it.values(generation=2, code="CHARGED_TWICE"))

    monkeypatch.setattr(discard_command, "require_yes", says_yes)
    done = dlq(planted.config, "discard", again, other, "--because", "refunded", "--json")
    assert done.code == 1, done.stderr
    assert json.loads(done.stdout)["requests"] == {again: "older_failure", other: "taken"}


def test_one_that_fails_between_the_question_and_the_yes_is_left(
    planted: Planted, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, runs, in_doubt = (f"request-{number:08d}" for number in range(3))
    asked: list[str] = []
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    stand(engine, {runs: JournalState.CLAIMED, in_doubt: JournalState.IN_DOUBT})

    def says_yes(question: str) -> None:
        asked.append(question)
        stand(engine, dict.fromkeys((runs, in_doubt), JournalState.FAILED))

    monkeypatch.setattr(discard_command, "require_yes", says_yes)
    names = (counted, runs, in_doubt)
    done = dlq(planted.config, "discard", *names, "--because", "refunded", "--json")
    assert done.code == 1, done.stderr
    assert asked[0].startswith("discard 1 failures")
    found = json.loads(done.stdout)
    assert found["requests"] == {counted: "taken", runs: "running", in_doubt: "in_doubt"}
    assert (found["discarded"], found["refused"]) == (1, {"in_doubt": 1, "running": 1})
    assert [one["request_id"] for one in planted.actions()] == [counted]


def stand(engine: Engine, states: dict[str, JournalState]) -> None:
    with engine.begin() as connection:
        for name, state in states.items():
            of_it = update(request).where(request.c.request_id == name)
            connection.execute(of_it.values(state=state.value))
