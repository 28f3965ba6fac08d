"""Links fail as asked, and work again afterwards."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
import redis

from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.redis import Redis
from tests.eventually import eventually
from tests.stack.losing_link import LosingLink, Loss, is_sql_commit
from tests.stack.postgres import Postgres, dsn
from tests.stack.toxiproxy import Link, Links

pytestmark = pytest.mark.waits

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    """Yield the owner of the servers and of Toxiproxy."""
    with Keeper() as opened:
        yield opened


@pytest.fixture(scope="module")
def link(keeper: Keeper) -> tuple[Link, str]:
    """Return a link to a Redis, and its URL through the link."""
    server = launch(keeper, Redis)
    made = Links(keeper).to(server.address)
    return made, made.at(server.address)


def client(url: str, *, timeout_s: float = LIMIT_S) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=timeout_s)


def test_a_slow_link_delivers_late(link: tuple[Link, str]) -> None:
    one, url = link
    with client(url) as far:
        far.ping()
        with one.slow(500), client(url, timeout_s=0.2) as hasty, pytest.raises(redis.TimeoutError):
            hasty.ping()
        with one.slow(100):
            assert far.ping()


def test_a_half_open_link_takes_everything_and_says_nothing(link: tuple[Link, str]) -> None:
    one, url = link
    with one.half_open(), client(url, timeout_s=0.3) as far, pytest.raises(redis.TimeoutError):
        far.ping()
    with client(url) as again:
        assert again.ping()


def test_a_link_that_is_down_refuses(link: tuple[Link, str]) -> None:
    one, url = link
    with one.down(), client(url) as far, pytest.raises(redis.ConnectionError, match="refused"):
        far.ping()
    with client(url) as again:
        assert again.ping()


def test_a_reset_ends_the_connection_at_its_next_answer(link: tuple[Link, str]) -> None:
    one, url = link
    with client(url) as far:
        far.ping()
        with one.resetting(), pytest.raises(redis.ConnectionError):
            far.execute_command("PING")
        assert far.ping()


@pytest.fixture(scope="module")
def losing(keeper: Keeper) -> Iterator[tuple[LosingLink, str]]:
    """Yield a link that may lose the reply to a commit, and the URL through it."""
    server = launch(keeper, Postgres)
    host = server.address.rpartition("@")[2].partition("/")[0]
    with LosingLink(host, loses=is_sql_commit) as made:
        url = dsn(server.address).replace(host, made.address)
        with psycopg.connect(url) as one:
            one.execute("CREATE TABLE claim (how text)")
        yield made, url


def rows(url: str, how: Loss) -> int:
    with psycopg.connect(url) as one:
        return len(one.execute("SELECT FROM claim WHERE how = %s", (how,)).fetchall())


def test_a_commit_whose_reply_was_lost_is_applied(losing: tuple[LosingLink, str]) -> None:
    link, url = losing
    with psycopg.connect(url) as one:
        one.execute("INSERT INTO claim VALUES (%s)", (Loss.CUT,))
        link.lose(1)
        with pytest.raises(psycopg.OperationalError):
            one.commit()
    assert rows(url, Loss.CUT) == 1


def test_a_lost_reply_may_leave_the_connection_open_and_silent(
    losing: tuple[LosingLink, str],
) -> None:
    link, url = losing
    lost = link.lost
    one = psycopg.connect(url)
    one.execute("INSERT INTO claim VALUES (%s)", (Loss.SILENCE,))
    link.lose(1, Loss.SILENCE)
    ended = threading.Event()

    def commit() -> None:
        try:
            one.commit()
        except psycopg.OperationalError:
            ended.set()

    asking = threading.Thread(target=commit, daemon=True)
    asking.start()
    eventually(lambda: link.lost == lost + 1, timeout_s=LIMIT_S)
    assert rows(url, Loss.SILENCE) == 1
    assert not ended.is_set()
    link.cut_all()
    assert ended.wait(LIMIT_S)
    one.close()
