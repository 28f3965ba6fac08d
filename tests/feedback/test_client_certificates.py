"""Redis and PostgreSQL that want a certificate of each client: given, missing, foreign, renewed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from consumer.journal import Journal
from feedback.errors import NotAvailable, SecurityKind
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.sections import RedisSection
from onceward.servers.ports import HOST
from tests.stack.authority import Authority, Certificate
from tests.stack.postgres import USER, dsn
from tests.stack.restartable import restartable
from tests.stack.secured_postgres import TlsPostgres
from tests.stack.secured_redis import ADMIN, ADMIN_PASSWORD, TlsRedis

NAME = "payer"
Ask = Callable[[], object]


class Files:
    """The files that the settings name; a renewal renames new ones into their place."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.cert, self.key = folder / "mine.crt", folder / "mine.key"

    def take(self, given: Certificate) -> None:
        for source, target in ((given.cert, self.cert), (given.key, self.key)):
            new = target.with_suffix(".new")
            shutil.copyfile(source, new)
            new.chmod(0o600)
            new.rename(target)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), name="another authority")


@pytest.fixture(scope="module")
def redis_at(ours: Authority) -> Iterator[str]:
    own = ours.issue("redis")
    with restartable(lambda: TlsRedis(own.both, ours.cafile, "yes")) as server:
        place = server.address.partition("//")[2]
        yield f"rediss://{ADMIN}:{ADMIN_PASSWORD}@{place}?ssl_ca_certs={ours.cafile}"


@pytest.fixture(scope="module")
def postgres_at(ours: Authority) -> Iterator[str]:
    access = f"host all {USER} {HOST}/32 trust\nhostssl all all {HOST}/32 cert\n"
    made = TlsPostgres(certificate=ours.issue("postgres"), access=access, cafile=ours.cafile)
    with restartable(lambda: made) as server:
        with psycopg.connect(dsn(server.address), autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {NAME} LOGIN")
        place = server.address.rpartition("@")[2].partition("/")[0]
        trust = f"sslmode=verify-full&sslrootcert={ours.cafile}"
        yield f"postgresql+psycopg://{NAME}@{place}/postgres?{trust}"


def refusal(ask: Ask) -> SecurityKind | None:
    """Return the fault of security by which a question fails; None where it is answered."""
    try:
        ask()
    except NotAvailable as error:
        assert error.fault is not None, error
        return error.fault.kind
    return None


def follow(ask: Ask, without: Ask, files: Files, ours: Authority, theirs: Authority) -> None:
    """Ask with the certificates of a year, by one client that is never made anew."""
    first, foreign = ours.issue(NAME, hosts=()), theirs.issue(NAME, hosts=())
    assert refusal(without) is SecurityKind.CLIENT_CERTIFICATE
    files.take(first)
    assert refusal(ask) is None
    files.take(foreign)
    assert refusal(ask) is SecurityKind.CLIENT_CERTIFICATE
    files.take(ours.issue(NAME, hosts=()))
    assert refusal(ask) is None
    files.cert.unlink()
    assert refusal(ask) is SecurityKind.FILE


def test_redis(redis_at: str, ours: Authority, theirs: Authority, tmp_path: Path) -> None:
    files = Files(tmp_path / "mine")
    files.take(ours.issue(NAME, hosts=()))
    own = RedisSection(url=f"{redis_at}&ssl_certfile={files.cert}&ssl_keyfile={files.key}")
    bare = RedisSection(url=redis_at)
    with (
        closing(StatusStore(connect(own), "g", own)) as store,
        closing(StatusStore(connect(bare), "g", bare)) as nobody,
    ):

        def ask() -> None:
            store.redis.connection_pool.disconnect()  # each question by a new connection
            store.read("r1")

        follow(ask, lambda: nobody.read("r1"), files, ours, theirs)


def test_postgresql(postgres_at: str, ours: Authority, theirs: Authority, tmp_path: Path) -> None:
    files = Files(tmp_path / "mine")
    files.take(ours.issue(NAME, hosts=()))
    url = f"{postgres_at}&sslcert={files.cert}&sslkey={files.key}"
    with (
        closing(Journal(url, group="g", worker_id="w")) as journal,
        closing(Journal(postgres_at, group="g", worker_id="w")) as nobody,
    ):

        def ask() -> None:
            journal.close()
            journal.ping()

        follow(ask, nobody.ping, files, ours, theirs)
