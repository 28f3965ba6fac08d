"""An act is not committed where the journal's name leads to another server or file by then."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import NullPool, create_engine, text

from consumer.journal import Journal, JournalState, Work, session
from consumer.journal.errors import JournalMoved, JournalUnavailable
from consumer.journal.group_journal import GroupJournal
from consumer.journal.pauses import Pauses
from consumer.journal.redrive.redrive_row import SavedProgress
from consumer.journal.redrive.redrive_rule import RedriveCandidate, RedriveWish
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.redrive.resolving import PersonDecisions
from tests.consumer.journal.samples import SHA, claim, finish
from tests.kit.databases import migrated
from tests.kit.moving_name import MovingName, moving_name
from tests.stack import Servers
from tests.stack.postgres import Postgres, fresh_database
from tests.stack.restartable import restartable

TABLES = ("onceward_request", "onceward_action", "onceward_redrive", "onceward_pause")
BY: dict[str, Any] = {"by": "zoe", "reason": "the list"}
DOUBT, FAILED, CLOSED = "request-doubt", "request-failed", "request-closed"
NOTHING = SavedProgress({}, {}, (), {})


def candidate(name: str) -> RedriveCandidate:
    return RedriveCandidate(name, 1, SHA, 0)


def taken(work: RedriveWork) -> bool:
    stands = work.find("left")
    assert stands is not None
    return work.take(stands, **BY)


def reopened(work: RedriveWork) -> None:
    given: dict[str, Any] = {"valid_ms": 60_000, "so_far": NOTHING, **BY}
    work.reopen([candidate(FAILED)], RedriveWish("mine"), **given)


def closed_again(work: RedriveWork) -> None:
    work.close_again("mine", [(FAILED, 1)], **BY)


def begun(work: RedriveWork) -> None:
    work.begin("new", **BY, filter_text="{}", spans={})


DECIDED: dict[str, Callable[[PersonDecisions], object]] = {
    "resolve": lambda acts: acts.resolve(DOUBT, has_succeeded=True, result="1", code=None, **BY),
    "discard": lambda acts: acts.discard([candidate(FAILED)], **BY),
    "undo": lambda acts: acts.undo_discard([CLOSED], **BY),
    "look": lambda acts: acts.look(FAILED, by="zoe"),
}
REDRIVEN: dict[str, Callable[[RedriveWork], object]] = {
    "begin": begun,
    "take": taken,
    "cancel": lambda work: work.cancel("mine", **BY),
    "pause": lambda work: work.note_pause("mine", **BY, seen="me"),
    "reopen": reopened,
    "close again": closed_again,
    "leave": lambda work: work.leave("mine", is_done=True),
}
PAUSED: dict[str, Callable[[Pauses], object]] = {
    "pause a topic": lambda pauses: pauses.pause("invoices", **BY),
    "resume a topic": lambda pauses: pauses.resume("payments", by="zoe"),
}


@dataclass
class Moving:
    """A journal under a name that can be moved to a copy of it."""

    url: str
    former: str
    copy: str
    move: Callable[[], None]


def plant(url: str, group: str) -> None:
    migrated(url)
    journal = Journal(url, group=group, worker_id="w")
    names = (DOUBT, FAILED, CLOSED)
    journal.apply(Work(claims=[claim(one, effect_kind="external") for one in names]))
    states = (JournalState.IN_DOUBT, JournalState.FAILED, JournalState.FAILED)
    ends = [finish(one, state=state) for one, state in zip(names, states, strict=True)]
    journal.apply(Work(finishes=ends))
    journal.close()
    with (
        closing(PersonDecisions(url, group=group)) as decisions,
        closing(RedriveWork(url, group=group, owner="me")) as work,
        closing(Pauses(url, group=group)) as pauses,
    ):
        decisions.discard([candidate(CLOSED)], **BY)
        for one in ("mine", "left"):
            work.begin(one, **BY, filter_text="{}", spans={})
        work.leave("left", is_done=False)
        pauses.pause("payments", **BY)


@contextmanager
def moving_file(folder: Path, group: str) -> Iterator[Moving]:
    (folder / "named").mkdir()
    url = f"sqlite:///{folder}/named/journal.db"
    plant(url, group)
    shutil.copytree(folder / "named", folder / "copy")

    def move() -> None:
        (folder / "named").rename(folder / "former")
        (folder / "copy").rename(folder / "named")

    yield Moving(url, f"sqlite:///{folder}/former/journal.db", url, move)


@pytest.fixture
def moving_server(servers: Servers, group: str) -> Iterator[Moving]:
    """Yield a journal on PostgreSQL, the name of whose server can be moved."""
    name = f"moved_{uuid.uuid4().hex}"
    with ExitStack() as stack:
        first, second = servers.postgres, stack.enter_context(restartable(Postgres)).address
        former, copy = (stack.enter_context(fresh_database(one, name)) for one in (first, second))
        for url in (former, copy):
            plant(url, group)
        ports = [urlsplit(one).port or 0 for one in (former, copy)]
        line: MovingName = stack.enter_context(moving_name(ports[0]))
        url = former.replace(f":{ports[0]}/", f":{line.port}/")
        yield Moving(url, former, copy, lambda: line.move(ports[1]))


@pytest.fixture
def moving(tmp_path: Path, group: str) -> Iterator[Moving]:
    """Yield a journal in a file whose name can be moved."""
    with moving_file(tmp_path, group) as made:
        yield made


def facts(url: str) -> list[Any]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return [
            sorted(connection.execute(text(f"SELECT * FROM {one}")).all(), key=repr)
            for one in TABLES
        ]


def acted_on(moving: Moving, made: GroupJournal, deed: Callable[[Any], object]) -> None:
    """Reach the journal, move its name, and act twice."""
    with made._session.transaction(read_only=True) as connection:
        connection.execute(text("SELECT 1"))
    moving.move()
    former, before = facts(moving.former), facts(moving.copy)
    with pytest.raises(JournalMoved, match="leads to another server or file") as refused:
        deed(made)
    assert isinstance(refused.value, JournalUnavailable)
    assert (facts(moving.former), facts(moving.copy)) == (former, before)
    # Once more it acts where the name leads now.
    deed(made)
    assert facts(moving.former) == former and facts(moving.copy) != before


@pytest.mark.parametrize("deed", DECIDED)
def test_a_decision_is_refused_on_a_server_that_the_name_has_left(
    moving: Moving, group: str, deed: str
) -> None:
    with closing(PersonDecisions(moving.url, group=group)) as decisions:
        acted_on(moving, decisions, DECIDED[deed])


@pytest.mark.parametrize("deed", [one for one in REDRIVEN if one != "close again"])
def test_a_redrive_takes_nothing_on_a_server_that_the_name_has_left(
    moving: Moving, group: str, deed: str
) -> None:
    with closing(RedriveWork(moving.url, group=group, owner="me")) as work:
        acted_on(moving, work, REDRIVEN[deed])


def test_no_reopening_is_taken_back_on_a_server_that_the_name_has_left(
    moving: Moving, group: str
) -> None:
    with closing(RedriveWork(moving.url, group=group, owner="me")) as work:
        reopened(work)
        acted_on(moving, work, closed_again)


@pytest.mark.parametrize("deed", PAUSED)
def test_no_topic_is_paused_or_resumed_on_a_server_that_the_name_has_left(
    moving: Moving, group: str, deed: str
) -> None:
    with closing(Pauses(moving.url, group=group)) as pauses:
        acted_on(moving, pauses, PAUSED[deed])


def test_a_server_that_the_name_has_left_is_told_from_the_one_that_has_it(
    moving_server: Moving, group: str
) -> None:
    with closing(PersonDecisions(moving_server.url, group=group)) as decisions:
        acted_on(moving_server, decisions, DECIDED["resolve"])
    with closing(PersonDecisions(moving_server.url, group=group)) as decisions:
        decisions.discard([candidate(FAILED)], **BY)


def test_an_act_is_refused_where_a_file_is_in_the_place_of_the_folder(
    tmp_path: Path, group: str
) -> None:
    (tmp_path / "named").mkdir()
    url = f"sqlite:///{tmp_path}/named/journal.db"
    plant(url, group)
    with closing(Pauses(url, group=group)) as pauses:
        assert [one.topic for one in pauses.paused()] == ["payments"]
        (tmp_path / "named").rename(tmp_path / "former")
        (tmp_path / "named").write_text("")
        with pytest.raises(JournalMoved):
            pauses.pause("invoices", **BY)
    with closing(Pauses(f"sqlite:///{tmp_path}/former/journal.db", group=group)) as pauses:
        assert [one.topic for one in pauses.paused()] == ["payments"]


def test_an_act_that_a_pooler_begins_on_another_server_is_rolled_back(
    postgres_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(postgres_url, group)
    before, answers = facts(postgres_url), iter([(1, "journal"), (2, "journal")])
    monkeypatch.setattr(session, "place_of", lambda connection: next(answers))
    with closing(Pauses(postgres_url, group=group)) as pauses, pytest.raises(JournalMoved):
        pauses.pause("invoices", **BY)
    assert facts(postgres_url) == before
