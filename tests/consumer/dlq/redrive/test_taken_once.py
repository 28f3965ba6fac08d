"""A letter is taken once, though another person or its client acts on it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, update

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter_reader import LetterReader
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.record import candidate_of
from consumer.dlq.redrive.redrive_plan import FieldValue, RedrivePlan
from consumer.dlq.redrive.redrive_session import begin, resume
from consumer.journal import actions
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.journal.tables import request
from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from feedback.kafka.outgoing import RecordRefused
from feedback.kafka.writer import KafkaWriter
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.test_foreign import foreign
from tests.consumer.dlq.redrive.test_killed import PLACES, Killed, nth

pytestmark = pytest.mark.waits

ONE = "request-00000007"
SET = FieldValue.parse("n=5")


@pytest.fixture(autouse=True)
def _the_dead_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.dlq.unfinished.is_gone", lambda owner: True)


@pytest.fixture
def theirs(planted: Planted) -> str:
    """Return a topic with one letter of another system, of which the journal knows nothing."""
    servers, name = planted.settings.kafka.bootstrap_servers, f"{planted.topic}-theirs"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.wait_for_topics([name])
    write(servers, name, [foreign(planted.topic)])
    return name


def redriven(planted: Planted, theirs: str, setting: FieldValue | None) -> bool:
    plan = RedrivePlan(
        LetterFilter(), dlqs=frozenset([theirs]), takes_unknown=True, setting=setting
    )
    ending = begin(planted.settings, plan, by="zoe", because=None, pace=RedrivePace())
    return ending.counts.get("sent", 0) == 1


def discarded(planted: Planted, theirs: str) -> bool:
    with LetterReader(planted.settings.kafka, dlqs=frozenset([theirs])) as letters:
        pages = list(letters.pages(letters.spans(since_ms=None)))
    (one,) = (candidate_of(one) for page in pages for one in page.letters)
    decisions = PersonDecisions.from_settings(planted.settings)
    found = decisions.discard([one], by="bob", reason="refunded")
    decisions.close()
    return found == [None]


def with_new_values(planted: Planted, theirs: str) -> bool:
    return redriven(planted, theirs, SET)


def as_it_is(planted: Planted, theirs: str) -> bool:
    return redriven(planted, theirs, None)


@pytest.mark.parametrize("one", [with_new_values, discarded])
@pytest.mark.parametrize("other", [with_new_values, as_it_is])
def test_of_two_people_one_takes_a_letter_that_has_no_row(
    planted: Planted,
    theirs: str,
    monkeypatch: pytest.MonkeyPatch,
    one: Callable[..., bool],
    other: Callable[..., bool],
) -> None:
    both, read = threading.Barrier(2), actions.actions_of

    def read_at_once(*given: Any) -> Any:
        found = read(*given)
        with suppress(threading.BrokenBarrierError):
            both.wait(2.0)
        return found

    monkeypatch.setattr(actions, "actions_of", read_at_once)
    with ThreadPoolExecutor(2) as people:
        done = [people.submit(act, planted, theirs) for act in (one, other)]
        assert sorted(what.result(timeout=60) for what in done) == [False, True]


def cut(planted: Planted, setting: FieldValue | None = None) -> str:
    """Begin a redrive of one letter that is killed before it sends; return its id."""
    where = PLACES["after the first reopening"]
    plan = RedrivePlan(LetterFilter(ids=frozenset([ONE])), setting=setting)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(where.owner, where.name, where.last)
        begin(planted.settings, plan, by="zoe", because=None, pace=RedrivePace())
    return planted.redrive().redrive_id


def test_a_request_that_has_failed_again_since_is_sent_by_no_resume(planted: Planted) -> None:
    redrive_id = cut(planted)
    now = epoch_ms()
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    with engine.begin() as connection:  # a resend of its client's ran, and its client knows
        connection.execute(
            update(request)
            .where(request.c.group == planted.settings.kafka.group, request.c.request_id == ONE)
            .values(generation=2, attempt=2, resend=True, claimed_at=now, finished_at=now)
        )
    ending = resume(planted.settings, redrive_id, by="bob", because=None, pace=RedrivePace())
    assert ending.of_named == {ONE: "older_failure"} and not planted.sent(redrive_id)


def test_new_values_that_kafka_refused_are_sent_by_no_resume_beside_the_old_ones(
    planted: Planted, dlq: Dlq
) -> None:
    plan = RedrivePlan(LetterFilter(ids=frozenset([ONE])), setting=SET)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(KafkaWriter, "write", lambda _, records: [RecordRefused("x")] * len(records))
        patch.setattr(RedriveWork, "close_again", nth(RedriveWork.close_again, 1, after=True))
        begin(planted.settings, plan, by="zoe", because=None, pace=RedrivePace())
    redrive_id = planted.redrive().redrive_id
    assert dlq(planted.config, "redrive", ONE).code == ExitCode.FINE
    resumed = dlq(planted.config, "redrive", "--resume", redrive_id)
    assert resumed.code == ExitCode.BAD_ANSWER and "it was reopened already" in resumed.stdout
    assert not planted.sent(redrive_id)
