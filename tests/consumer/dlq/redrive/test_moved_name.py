"""Acts on letters while the name of the journal's server moves: what is said holds where it leads.

An act makes several connections. Whichever of them is the first to meet the other server, none of
the act stays on the former one without a word.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import NullPool, Table, create_engine, insert, select
from sqlalchemy.engine import RowMapping

from consumer.dlq.discard_command import discard_letters
from consumer.dlq.filter import LetterFilter
from consumer.dlq.options import LetterOptions
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import begin
from consumer.journal.tables import action, redrive, request
from feedback.errors import NotAvailable
from feedback.settings.settings import Settings, load
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.planting import plant
from tests.kit.databases import migrated
from tests.kit.moving_name import MovingName, moving_name
from tests.kit.settings import write_settings
from tests.stack import Servers
from tests.stack.postgres import Postgres, fresh_database
from tests.stack.restartable import restartable

LETTERS = 20


@dataclass
class Moving:
    """Letters whose journal is a copy of that of another server."""

    planted: Planted
    line: MovingName
    former: str
    copy: str

    def leads_to(self, url: str, *, after: int = 0) -> None:
        """Let the name lead to a server, once so many further connections were made."""
        self.line.move(urlsplit(url).port or 0, after=after)


@pytest.fixture
def moving(no_given_servers: None, servers: Servers, tmp_path: Path) -> Iterator[Moving]:
    """Yield letters of a group whose journal stands on two servers."""
    name, group, topic = (f"{one}-{uuid.uuid4().hex}" for one in ("moved", "group", "topic"))
    with ExitStack() as stack:
        second = stack.enter_context(restartable(Postgres)).address
        former, copy = (
            stack.enter_context(fresh_database(one, name)) for one in (servers.postgres, second)
        )
        for url in (former, copy):
            migrated(url)
        plant(kafka=servers.kafka, journal_url=former, group=group, topic=topic, letters=LETTERS)
        rows = [dict(one) for one in found(former, request)]
        engine = create_engine(copy, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(insert(request), rows)
        port = urlsplit(former).port or 0
        line = stack.enter_context(moving_name(port))
        sections = {
            "kafka": {"bootstrap_servers": servers.kafka, "group": group},
            "redis": {"url": servers.redis},
            "journal": {"url": former.replace(f":{port}/", f":{line.port}/")},
        }
        config = write_settings(tmp_path, sections)
        yield Moving(Planted(load(config), config, topic), line, former, copy)


def found(url: str, table: Table) -> list[RowMapping]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return [*connection.execute(select(table)).mappings()]


def discards(settings: Settings, name: str) -> None:
    given = LetterOptions(LetterFilter(ids=frozenset([name])), frozenset(), frozenset())
    done = discard_letters(settings, given, by="zoe", because="x", pace=RedrivePace())
    assert done.told == {name: "taken"}


def redrives(settings: Settings, name: str) -> None:
    plan = RedrivePlan(LetterFilter(ids=frozenset([name])))
    done = begin(settings, plan, by="zoe", because="x", pace=RedrivePace())
    assert done.of_named == {name: "sent"}


@pytest.mark.parametrize("act", [discards, redrives])
def test_no_act_is_said_to_be_done_that_stays_on_the_server_which_the_name_has_left(
    moving: Moving, act: Callable[[Settings, str], None]
) -> None:
    settings = moving.planted.settings
    moving.leads_to(moving.former)
    act(settings, "request-00000000")
    connections, refused = len(moving.line.made), 0
    assert connections > 2
    for after in range(connections):
        moving.leads_to(moving.former, after=0)
        moving.leads_to(moving.copy, after=after)
        before = len(found(moving.former, action)), len(found(moving.copy, action))
        try:
            act(settings, f"request-{after + 1:08d}")
        except NotAvailable as error:
            assert "leads to another server" in str(error), after
            # The copy knows nothing of what was begun on the former one.
            is_begun = bool(found(moving.former, redrive)) and "knows no redrive" in str(error)
            assert is_begun != ("repeat it" in str(error)), after
            assert "--resume" not in str(error), after
            refused += 1
        else:
            now = len(found(moving.former, action)), len(found(moving.copy, action))
            assert (now[0] - before[0], now[1] - before[1]) == (0, 1), after
    assert 0 < refused < connections


@pytest.mark.parametrize(
    ("state", "said"),
    [("running", "where you have cancelled it, repeat that"), ("cancelled", "may stay so")],
)
def test_a_redrive_is_gone_on_with_where_the_name_leads_to_a_server_that_knows_it(
    moving: Moving, state: str, said: str
) -> None:
    moving.leads_to(moving.former)

    def promoted(redrive_id: str) -> None:
        engine = create_engine(moving.copy, poolclass=NullPool)
        with engine.begin() as connection:
            rows = [dict(one) | {"state": state} for one in found(moving.former, redrive)]
            connection.execute(insert(redrive), rows)
        moving.leads_to(moving.copy)

    with pytest.raises(NotAvailable, match="leads to another server") as refused:
        begin(
            moving.planted.settings,
            RedrivePlan(LetterFilter(ids=frozenset(["request-00000000"]))),
            by="zoe",
            because="x",
            pace=RedrivePace(on_begun=promoted),
        )
    (stands,) = found(moving.copy, redrive)
    assert f"--resume {stands['redrive_id']}" in str(refused.value)
    assert "repeat it" not in str(refused.value) and said in str(refused.value)
    assert stands["state"] == state
    assert state == "cancelled" or stands["owner"] is None
