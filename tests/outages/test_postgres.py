"""PostgreSQL fails under load: what runs waits in memory, and all goes on by itself."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from tests.eventually import eventually
from tests.outages.conftest import MakeStage
from tests.outages.scene import scene_on
from tests.stack.losing_link import LosingLink, Loss, is_sql_commit
from tests.stack.postgres import Postgres, dsn, fresh_database
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

AWAY_S = 5.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[Restartable]:
    """Yield a PostgreSQL that may fail."""
    with restartable(Postgres) as server:
        yield server


@pytest.fixture
def url(postgres: Restartable) -> Iterator[str]:
    """Yield the URL of an empty database on it."""
    with fresh_database(postgres.address, f"outage_{uuid.uuid4().hex}") as fresh:
        yield fresh


def test_a_restarted_postgresql_is_noticed_and_used_again(
    make_stage: MakeStage, postgres: Restartable, url: str
) -> None:
    with scene_on(make_stage(journal_url=url)) as scene:
        postgres.stop()
        postgres.start()
        scene.resumes()
        scene.logs("journal.away")
        scene.logs("journal.back")
    scene.all_succeeded()


def test_work_resumes_by_itself_after_postgresql_was_away(
    make_stage: MakeStage, postgres: Restartable, url: str
) -> None:
    with scene_on(make_stage(journal_url=url)) as scene:
        with postgres.down():
            scene.logs("journal.away")
            scene.load.await_sent(int(AWAY_S * 15))
        scene.resumes()
        scene.logs("journal.back")
    scene.all_succeeded()


def cut_those_in_a_transaction(url: str) -> int:
    """Cut the worker's connections that are inside a transaction; return how many were."""
    with psycopg.connect(dsn(url), autocommit=True) as admin:
        rows = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database() AND xact_start IS NOT NULL"
        ).fetchall()
    return len(rows)


def test_connections_cut_inside_a_transaction_cost_nothing_but_time(
    make_stage: MakeStage, postgres: Restartable, url: str
) -> None:
    with scene_on(make_stage(journal_url=url)) as scene:
        cuts = [0]

        def has_cut_five() -> bool:
            cuts[0] += cut_those_in_a_transaction(url)
            return cuts[0] >= 5

        eventually(has_cut_five, timeout_s=30, interval_s=0.01)
        scene.resumes()
    scene.all_succeeded()


@pytest.mark.parametrize("how", Loss)
def test_a_claim_whose_reply_was_lost_runs_once(
    make_stage: MakeStage, postgres: Restartable, url: str, how: Loss
) -> None:
    host = url.rpartition("@")[2].partition("/")[0]
    with LosingLink(host, loses=is_sql_commit) as link:
        stage = make_stage(journal_url=url.replace(host, link.address), journal={"timeout_s": 2})
        with scene_on(stage) as scene:
            link.lose(4, how)
            eventually(lambda: link.lost >= 4, timeout_s=40)
            scene.resumes()
            scene.logs("journal.back")
        scene.all_succeeded()
