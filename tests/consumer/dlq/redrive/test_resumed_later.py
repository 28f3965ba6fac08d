"""Whoever resumes a redrive, or counts for one, is told what it does not know."""

import json
import threading
from dataclasses import replace

import pytest
from sqlalchemy import NullPool, create_engine, insert, select, update

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter_reader import LetterReader
from consumer.dlq.list_hints import MOST_ASKED
from consumer.dlq.redrive.endings import print_ending
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import RedriveEnding, begin, rehearse
from consumer.dlq.redrive.unjournaled import send_back
from consumer.journal.redrive.redrive_row import DONE
from consumer.journal.tables import redrive, request
from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.redrive.planted import LETTERS, Planted
from tests.consumer.dlq.redrive.test_killed import EVERYTHING, PAGE, cut, go_on
from tests.consumer.dlq.redrive.test_killed import _the_dead_are_gone as _the_dead_are_gone

pytestmark = pytest.mark.waits


def ask_anew(planted: Planted, request_id: str) -> None:
    """Let the client of a failure have asked anew, with success."""
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    mine = (request.c.group == planted.settings.kafka.group, request.c.request_id == request_id)
    now = epoch_ms()
    succeeded = {"request_id": "asked-anew", "state": "SUCCEEDED", "deadline_at": now + 60_000}
    with engine.begin() as connection:
        failed = connection.execute(select(request).where(*mine)).mappings().one()
        row = {**failed, **succeeded, "claimed_at": now, "finished_at": now}
        connection.execute(insert(request).values(row))


@pytest.mark.parametrize("place", ["before the first reopening", "after the first reopening"])
def test_a_resume_asks_where_clients_have_asked_anew_since(
    planted: Planted, dlq: Dlq, place: str
) -> None:
    redrive_id = cut(planted, place)
    taken = planted.redrive().unconfirmed
    ask_anew(planted, min(taken, default="request-00000007"))
    refused = dlq(planted.config, "redrive", "--resume", redrive_id)
    assert refused.code == ExitCode.BAD_ANSWER and "asked-anew" in refused.stderr
    assert "send the rest back all the same?" in refused.stderr and not planted.sent(redrive_id)
    done = dlq(planted.config, "redrive", "--resume", redrive_id, "--yes")
    assert done.code == ExitCode.FINE and len(planted.sent(redrive_id)) == LETTERS
    assert dlq(planted.config, "redrive", "--resume", redrive_id).code == ExitCode.FINE


def test_a_resume_asks_where_it_is_too_much_to_look_through(
    planted: Planted, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    redrive_id = cut(planted, "after a reopening that saves a page")
    monkeypatch.setattr("consumer.dlq.list_hints.MOST_ASKED", 10)
    assert MOST_ASKED > LETTERS
    refused = dlq(planted.config, "redrive", "--resume", redrive_id)
    assert refused.code == ExitCode.BAD_ANSWER and "others may have succeeded" in refused.stderr


def test_letters_of_a_topic_that_was_made_anew_are_left_out_and_named(
    planted: Planted, dlq: Dlq
) -> None:
    redrive_id = cut(planted, "after a reopening that saves a page")
    before = planted.sent(redrive_id)
    done_before = planted.redrive()
    planted.box_made_anew()
    passed = sum(done_before.positions.values())
    assert 0 < passed < LETTERS
    words = ("redrive", "--resume", redrive_id, "--yes")
    for _ in range(2):
        resumed = dlq(planted.config, *words)
        assert resumed.code == ExitCode.BAD_ANSWER
        why = f"{LETTERS - passed} left: {planted.box} was deleted and made anew"
        assert why in resumed.stdout and "incomplete: begin another one" in resumed.stdout
    said = json.loads(dlq(planted.config, *words, "--json").stdout)
    assert (said["state"], said["left_out"]) == ("incomplete", {planted.box: LETTERS - passed})
    (listed,) = dlq(planted.config, "redrives").stdout.splitlines()
    assert "incomplete" in listed and f"{LETTERS - passed} left" in listed
    assert planted.sent(redrive_id) == before and "request-00001000" not in before
    assert planted.redrive().state == DONE


@pytest.mark.parametrize("known", ["in the plan", "now"])
def test_a_topic_whose_id_is_not_known_is_none_that_was_made_anew(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    redrive_id = cut(planted, "before the first reopening")
    assert [*RedrivePlan.from_json(planted.redrive().filter).topic_ids] == [planted.box]
    if known == "in the plan":
        monkeypatch.setattr(LetterReader, "ids_of", lambda reader, topics: {planted.box: ""})
    else:
        forget_ids(planted)
    ending = go_on(planted, redrive_id)
    assert (ending.state, ending.left_out) == (DONE, {})
    assert len(planted.sent(redrive_id)) == LETTERS


def forget_ids(planted: Planted) -> None:
    """Let the plan be one that was written before plans had ids."""
    plan = replace(RedrivePlan.from_json(planted.redrive().filter), topic_ids={})
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(update(redrive).values(filter=plan.to_json()))


def test_what_was_counted_in_a_topic_is_not_sent_from_the_one_that_was_made_in_its_place(
    planted: Planted,
) -> None:
    seen = rehearse(planted.settings, EVERYTHING, pace=RedrivePace())
    plan = replace(EVERYTHING, topic_ids=seen.topic_ids)
    planted.box_made_anew()
    again = rehearse(planted.settings, plan, pace=RedrivePace(), within=seen.seen)
    assert (again.counts.get("sent", 0), again.left_out) == (0, {planted.box: LETTERS})
    ending = begin(
        planted.settings, plan, by="zoe", because=None, pace=RedrivePace(), within=seen.seen
    )
    assert ending.left_out == {planted.box: LETTERS} and not planted.sent(ending.redrive_id)
    assert print_ending(ending, as_json=False) == ExitCode.BAD_ANSWER


@pytest.mark.parametrize("is_journaled", [True, False])
def test_a_count_that_was_stopped_says_so(
    planted: Planted, capsys: pytest.CaptureFixture[str], is_journaled: bool
) -> None:
    stopping = threading.Event()
    stopping.set()
    ending = _counted(planted, RedrivePace(stopping=stopping), is_journaled=is_journaled)
    assert 0 < ending.counts["read"] <= PAGE
    assert print_ending(ending, as_json=False) == ExitCode.CUT
    said = capsys.readouterr().out
    assert "not all letters were counted" in said and "--resume" not in said
    assert print_ending(ending, as_json=True) == ExitCode.CUT
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"


def _counted(planted: Planted, pace: RedrivePace, *, is_journaled: bool) -> RedriveEnding:
    if is_journaled:
        return rehearse(planted.settings, EVERYTHING, pace=pace)
    box = f"{planted.topic}.{planted.settings.kafka.group}.dlq"
    plan = RedrivePlan(LetterFilter(), dlqs=frozenset([box]))
    return send_back(planted.settings, plan, by="zoe", pace=pace, is_trial=True)
