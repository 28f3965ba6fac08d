"""A server of one's own fails as asked, and comes back on its ports with its data."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest
import redis

from onceward.servers.redis import Redis
from tests.paused import paused
from tests.stack import StackError
from tests.stack.clock import clock_off_by
from tests.stack.postgres import Postgres, dsn
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

ENDS_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[Restartable]:
    """Yield a PostgreSQL that may fail."""
    with restartable(Postgres) as server:
        yield server


@pytest.fixture
def kept() -> Iterator[Restartable]:
    """Yield a Redis that keeps its data."""
    with restartable(lambda: Redis(keeps_data=True)) as server:
        yield server


def value(server: Restartable) -> bytes | None:
    with redis.Redis.from_url(server.address) as client:
        found = client.get("key")
    assert found is None or isinstance(found, bytes)
    return found


def test_a_killed_redis_comes_back_with_its_data_or_without_as_asked(kept: Restartable) -> None:
    with redis.Redis.from_url(kept.address) as client:
        client.set("key", "value")
    with kept.down():
        assert not kept.is_up
        with pytest.raises(redis.ConnectionError):
            value(kept)
    assert value(kept) == b"value"
    kept.stop()
    kept.start(empty=True)
    assert value(kept) is None


def test_a_server_that_runs_is_not_started_twice(kept: Restartable) -> None:
    with pytest.raises(StackError, match="redis runs already: stop or kill it first"):
        kept.start()


@pytest.mark.parametrize("end", [Restartable.kill, Restartable.stop])
def test_postgresql_comes_back_with_what_was_committed(postgres: Restartable, end: object) -> None:
    assert callable(end)
    with psycopg.connect(dsn(postgres.address)) as one:
        one.execute("CREATE TABLE IF NOT EXISTS claim (id integer)")
        one.execute("DELETE FROM claim")
        one.execute("INSERT INTO claim VALUES (1)")
        one.commit()
        one.execute("INSERT INTO claim VALUES (2)")
        family = psutil.Process(postgres.pid).children(recursive=True)
        end(postgres)
        assert not any(each.is_running() and each.status() != "zombie" for each in family)
        with pytest.raises(psycopg.OperationalError):
            one.execute("SELECT 1")
    postgres.start()
    with psycopg.connect(dsn(postgres.address)) as again:
        assert again.execute("SELECT id FROM claim").fetchall() == [(1,)]


def test_a_paused_server_keeps_its_connections_and_answers_afterwards(
    postgres: Restartable,
) -> None:
    answers: list[object] = []
    with psycopg.connect(dsn(postgres.address)) as one:
        asking = threading.Thread(target=lambda: answers.append(one.execute("SELECT 1").fetchone()))
        with postgres.paused():
            asking.start()
            asking.join(0.2)
            assert answers == []
        asking.join(ENDS_WITHIN_S)
        assert answers == [(1,)]


def test_a_process_that_ends_before_it_is_reached_stands_still_too() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with paused(ended.pid, may_end=True):
            assert ended.returncode is None


@pytest.mark.parametrize("off_s", [300, -300])
def test_the_wall_clock_of_a_process_is_off_and_its_monotonic_clock_is_not(off_s: int) -> None:
    code = "import time; print(time.time(), time.time_ns(), time.monotonic())"
    before_s, before_monotonic_s = time.time(), time.monotonic()
    out = subprocess.run(
        (sys.executable, "-c", code),
        env=clock_off_by(off_s),
        capture_output=True,
        text=True,
        check=True,
        timeout=ENDS_WITHIN_S,
    ).stdout.split()
    assert float(out[0]) - before_s == pytest.approx(off_s, abs=ENDS_WITHIN_S)
    assert int(out[1]) / 1e9 - before_s == pytest.approx(off_s, abs=ENDS_WITHIN_S)
    assert float(out[2]) - before_monotonic_s == pytest.approx(0, abs=ENDS_WITHIN_S)
