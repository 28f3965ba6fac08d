"""Whoever resumes a redrive, or counts for one, is told what it does not know."""

import json
import threading

import pytest
from sqlalchemy import NullPool, create_engine, insert, select

from consumer.dlq.filter import LetterFilter
from consumer.dlq.list_hints import MOST_ASKED
from consumer.dlq.redrive.endings import print_ending
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import RedriveEnding, rehearse
from consumer.dlq.redrive.unjournaled import send_back
from consumer.journal.tables import request
from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.redrive.planted import LETTERS, Planted
from tests.consumer.dlq.redrive.test_killed import EVERYTHING, PAGE, cut
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
