"""PostgreSQL's copy of the open requests: exact, half the log, and made anew after a crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text

from consumer.journal import Journal, JournalState, Work, migrate, open_requests, swept_journal
from consumer.journal.doubts import Doubts
from consumer.journal.errors import OpenRequestsUnknown
from consumer.journal.owed_rows import DeadLetterRows
from consumer.journal.records import Published
from consumer.journal.schema import _MIGRATIONS
from consumer.journal.waiting import OwedCursor
from consumer.journal.workers import Workers
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, new_id
from tests.kit.open_requests import assert_open_requests_are_those_of_the_journal

pytestmark = pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
Look = Callable[[Journal, str, str], object]


def _forget(database: Database) -> None:
    """Empty the copy, as a crash of the server does with each table that is not logged."""
    database.change("TRUNCATE onceward_open, onceward_open_look")


def _letters(url: str, group: str) -> object:
    with closing(DeadLetterRows(url, group=group, worker_id="me")) as rows:
        return rows.page(OwedCursor(), topics=["payments"], limit=9, of_the_dead=True)


def _waiting(url: str, group: str) -> object:
    with closing(DeadLetterRows(url, group=group, worker_id="me")) as rows:
        return rows.waiting()


def _doubts(url: str, group: str) -> object:
    with closing(Doubts(url, group=group)) as doubts:
        return doubts.count(), list(doubts.pages()), doubts.unswept()


def _claims(url: str, group: str) -> object:
    with closing(Workers(url, group=group)) as workers:
        return workers.claims_of("me", 9)


LOOKS: dict[str, Look] = {
    "claims of the dead": lambda journal, *_: journal.dead_claims(["payments"], 9),
    "claims on other topics": lambda journal, *_: journal.unhandled(["other"], 9, 0),
    "own claims": lambda journal, *_: journal.own_claims(),
    "statuses": lambda journal, *_: journal.unpublished(9, 0),
    "retries": lambda journal, *_: journal.overdue_retries(["payments"], 9, 0),
    "count of doubts": lambda journal, *_: journal.doubts(0),
    "claims with a key": lambda journal, *_: journal.apply(
        Work(claims=[claim(new_id())._replace(order_key="key")])
    ),
    "letters": lambda _, url, group: _letters(url, group),
    "letters by topic": lambda _, url, group: _waiting(url, group),
    "doubts": lambda _, url, group: _doubts(url, group),
    "claims of a worker": lambda _, url, group: _claims(url, group),
}


def _in_each_state(journal: Journal) -> dict[str, str]:
    """Return the state of new requests by id: one of each state, told and not."""
    states: dict[str, str] = {}
    for state in (None, *JournalState):
        for is_told in (False, True):
            name = new_id()
            states[name] = (state or JournalState.CLAIMED).value
            journal.apply(Work(claims=[claim(name)]))
            if state in (None, JournalState.CLAIMED):
                continue
            delay_ms = 0 if state is JournalState.RETRYING else None
            journal.apply(Work(finishes=[finish(name, state=state, delay_ms=delay_ms)]))
            if is_told:
                journal.apply(Work(published=[Published(name, 1, state)]))
    return states


@pytest.mark.parametrize("look", LOOKS)
def test_after_a_crash_of_the_server_no_look_takes_what_it_forgot_for_nothing(
    journal: Journal, database: Database, group: str, look: str
) -> None:
    _in_each_state(journal)
    _forget(database)
    with pytest.raises(OpenRequestsUnknown, match="still looking for its open requests"):
        LOOKS[look](journal, database.url, group)
    journal.find_open_requests()
    LOOKS[look](journal, database.url, group)


def test_all_open_requests_are_found_again_page_by_page(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_requests, "PAGE_ROWS", 3)
    monkeypatch.setattr(open_requests, "PAGE_BLOCKS", 1)
    _in_each_state(journal)
    # Some blocks of requests about which nothing is to be done, and behind them open ones.
    over = [new_id() for _ in range(100)]
    journal.apply(Work(claims=[claim(one) for one in over]))
    journal.apply(Work(finishes=[finish(one) for one in over]))
    journal.apply(Work(published=[Published(one, 1, JournalState.SUCCEEDED) for one in over]))
    _in_each_state(open_journal(group="another"))
    before = database.query("SELECT * FROM onceward_open ORDER BY 1, 2")
    assert len(before) > 20
    _forget(database)
    new = new_id()
    journal.apply(Work(claims=[claim(new)]))
    journal.find_open_requests()
    found = database.query("SELECT * FROM onceward_open ORDER BY 1, 2")
    assert [row for row in found if row["request_id"] != new] == before
    assert len(found) == len(before) + 1


def test_one_that_ends_while_it_is_looked_for_is_not_open(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    ends, stays = new_id(), new_id()
    journal.apply(Work(claims=[claim(ends), claim(stays)]))
    _forget(database)
    other = open_journal()

    def end_it(_: object, __: object, statement: str, *rest: object) -> None:
        if statement.startswith("SELECT") and "LIMIT" in statement:
            other.apply(Work(finishes=[finish(ends)]))
            other.apply(Work(published=[Published(ends, 1, JournalState.SUCCEEDED)]))

    event.listen(journal._session._engine, "after_cursor_execute", end_it)
    journal.find_open_requests()
    event.remove(journal._session._engine, "after_cursor_execute", end_it)
    left = database.query("SELECT request_id FROM onceward_open")
    assert [row["request_id"] for row in left] == [stays]


def test_a_look_during_which_the_server_crashes_is_none(
    journal: Journal, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_requests, "PAGE_ROWS", 1)
    journal.apply(Work(claims=[claim(new_id()), claim(new_id())]))
    _forget(database)

    def crash_behind_the_first_page(
        connection: Connection, look: open_requests.OpenLook, behind: tuple[int, int]
    ) -> open_requests.OpenLookPage:
        # Behind a proxy the connection outlives the server.
        if behind != open_requests.FIRST:
            _forget(database)
        return open_requests.look_through(connection, look, behind)

    with monkeypatch.context() as patched:
        patched.setattr(swept_journal, "look_through", crash_behind_the_first_page)
        with pytest.raises(OpenRequestsUnknown):
            journal.find_open_requests()
    with pytest.raises(OpenRequestsUnknown):
        journal.own_claims()
    journal.find_open_requests()
    assert len(journal.own_claims()) == 2


def test_a_look_during_which_the_table_is_rewritten_is_none(
    journal: Journal, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_requests, "PAGE_ROWS", 1)
    journal.apply(Work(claims=[claim(new_id()), claim(new_id())]))
    _forget(database)
    engine = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def rewrite_behind_the_first_page(
        connection: Connection, look: open_requests.OpenLook, behind: tuple[int, int]
    ) -> open_requests.OpenLookPage:
        if behind != open_requests.FIRST:
            with engine.connect() as other:
                other.execute(text("VACUUM FULL onceward_request"))
        return open_requests.look_through(connection, look, behind)

    with monkeypatch.context() as patched:
        patched.setattr(swept_journal, "look_through", rewrite_behind_the_first_page)
        with pytest.raises(OpenRequestsUnknown):
            journal.find_open_requests()
    with pytest.raises(OpenRequestsUnknown):
        journal.own_claims()
    # The next look begins when this one is known to be dead.
    database.change("UPDATE onceward_open_look SET seen_at = seen_at - 60000")
    journal.find_open_requests()
    assert len(journal.own_claims()) == 2


def test_of_all_workers_one_looks_and_one_that_died_is_followed(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    journal.apply(Work(claims=[claim(new_id())]))
    _forget(database)
    database.change(
        "INSERT INTO onceward_open_look VALUES ('of another', "
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint), 0)"
    )
    other = open_journal("other")
    other.find_open_requests()
    with pytest.raises(OpenRequestsUnknown):
        other.own_claims()
    # Whoever had the turn has died.
    database.change("UPDATE onceward_open_look SET seen_at = seen_at - 60000")
    other.find_open_requests()
    assert len(journal.own_claims()) == 1


def test_a_run_writes_no_index_anew(journal: Journal, database: Database) -> None:
    names = [new_id() for _ in range(200)]
    for name in names:
        journal.apply(Work(claims=[claim(name)]))
        journal.apply(Work(finishes=[finish(name)]))
        journal.apply(Work(published=[Published(name, 1, JournalState.SUCCEEDED)]))
    journal.close()
    database.change("SELECT pg_stat_force_next_flush()")
    (counted,) = database.query(
        "SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables "
        "WHERE relname = 'onceward_request'"
    )
    assert counted["updates"] >= 2 * len(names)
    assert counted["hot"] >= 0.9 * counted["updates"]


def test_whoever_may_change_requests_needs_no_right_on_the_copy_and_cannot_divert_it(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    with database.engine.begin() as admin:
        for statement in (
            "CREATE ROLE stranger LOGIN",
            "CREATE SCHEMA stranger AUTHORIZATION stranger",
            "GRANT SELECT, UPDATE ON onceward_request TO stranger",
        ):
            admin.execute(text(statement))
    try:
        with database.engine.begin() as stranger:
            for statement in (
                "SET LOCAL ROLE stranger",
                "SET LOCAL search_path = stranger, public",
                "CREATE TABLE stranger.onceward_open (request_id text, state text)",
                "UPDATE public.onceward_request SET state = 'IN_DOUBT'",
            ):
                stranger.execute(text(statement))
        copied = database.query("SELECT state FROM public.onceward_open")
        assert copied == [{"state": "IN_DOUBT"}]
        assert database.query("SELECT 1 FROM stranger.onceward_open") == []
    finally:
        with database.engine.begin() as admin:
            admin.execute(text("DROP SCHEMA stranger CASCADE"))
            admin.execute(text("DROP OWNED BY stranger"))
            admin.execute(text("DROP ROLE stranger"))


def test_an_older_journal_is_brought_up_to_date_while_its_workers_run(journal_url: str) -> None:
    engine = create_engine(journal_url, poolclass=NullPool)
    older = "state, published_at, resend, dead_letter_at, outcome_generation"
    kinds = (
        "'CLAIMED', NULL, 0, NULL, NULL",
        "'SUCCEEDED', NULL, 0, NULL, NULL",
        "'SUCCEEDED', 1, 0, NULL, NULL",
        "'SUCCEEDED', 1, 0, NULL, 0",
        "'FAILED', 1, 0, NULL, NULL",
        "'FAILED', 1, 0, 1, NULL",
        "'FAILED', 1, 1, NULL, NULL",
        "'RETRYING', 1, 0, NULL, NULL",
        "'IN_DOUBT', 1, 0, NULL, NULL",
    )
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        connection.execute(text("INSERT INTO onceward_meta VALUES ('schema_version', '5')"))
        for number, values in enumerate(kinds):
            connection.execute(
                text(
                    'INSERT INTO onceward_request ("group", request_id, topic, partition, '
                    '"offset", payload_sha256, attempt, generation, deadline_at, owner, '
                    f"{older}) VALUES ('g', '{number}', 't', 0, 0, '', 1, 1, 1, 'me', {values})"
                )
            )
    assert (migrate(journal_url).found, _older_indexes(engine)) == (5, 7)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM onceward_open")).scalar_one() == 6
        assert_open_requests_are_those_of_the_journal(connection)
    # Once no worker of the earlier version runs.
    migrate(journal_url)
    assert _older_indexes(engine) == 0


def _older_indexes(engine: Engine) -> int:
    """Return how many partial indexes `onceward_request` has."""
    with engine.connect() as connection:
        found = connection.execute(
            text(
                "SELECT count(*) FROM pg_index WHERE indrelid = 'onceward_request'::regclass "
                "AND indpred IS NOT NULL"
            )
        )
        return int(found.scalar_one())
