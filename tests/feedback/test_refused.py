"""Each system, refused in each way: which fault it is, its sentence, and within which time.

Every command connects by one of these; `tests/feedback/kafka/kafka_python` has more of Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from consumer.journal import Journal
from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.sections import KafkaSection, RedisSection
from onceward.servers.ports import HOST
from tests.stack import Servers
from tests.stack.authority import Authority
from tests.stack.secured_stack import Secured
from tests.stack.tls_front import self_signed, tls_front

LIMIT_S = 5.0
USER, DATABASE, PASSWORD = "refused", "refused", "the-right-secret"


class Said(NamedTuple):
    """What is said of one way to be refused, and after how long."""

    error: NotAvailable | None
    after_s: float

    @property
    def kind(self) -> str | None:
        """The kind of the fault."""
        fault = None if self.error is None else self.error.fault
        return None if fault is None else str(fault.kind)


class Ports(NamedTuple):
    """Ports with certificates that are refused."""

    expired: int
    other_name: int
    expired_file: Path
    other_file: Path


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("fronts")
    expired = self_signed(folder, "expired", host=HOST, days=-1)
    other = self_signed(folder, "other", host="192.0.2.1", days=2)
    with tls_front(expired) as first, tls_front(other) as second:
        yield Ports(first, second, expired.cert, other.cert)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), name="another authority")


def _asked(ask: Callable[[], object]) -> Said:
    began_s = monotonic_s()
    try:
        ask()
    except NotAvailable as error:
        return Said(error, monotonic_s() - began_s)
    return Said(None, monotonic_s() - began_s)


def _check(found: dict[str, Said], way: str, kind: str | None, *words: str) -> None:
    said = found[way]
    assert said.kind == kind, said
    assert [word for word in words if word not in str(said.error)] == [], said
    assert PASSWORD not in str(said.error)
    assert said.after_s < LIMIT_S or kind is None, said


# Redis -------------------------------------------------------------------------------------


def _redis_urls(
    secured: Secured, servers: Servers, ports: Ports, stranger: Authority
) -> dict[str, str]:
    right, ca = secured.redis.url(USER, PASSWORD), f"ssl_ca_certs={secured.redis.cafile}"
    place = right.partition("@")[2].partition("/")[0]
    theirs = stranger.issue("stranger", hosts=())
    return {
        "right": right,
        "password": secured.redis.url(USER, "wrong"),
        "login": f"rediss://{place}/0?{ca}",
        "untrusted": right.replace(str(secured.redis.cafile), str(stranger.cafile)),
        "expired": f"rediss://{HOST}:{ports.expired}/0?ssl_ca_certs={ports.expired_file}",
        "name": f"rediss://{HOST}:{ports.other_name}/0?ssl_ca_certs={ports.other_file}",
        "needs tls": f"redis://{place}/0",
        "no tls": servers.redis.replace("redis://", "rediss://", 1),
        "file": right.replace(str(secured.redis.cafile), "/no/such/ca.pem"),
        "client": f"{right}&ssl_certfile={theirs.cert}&ssl_keyfile={theirs.key}",
    }


REDIS_WAYS = [
    ("right", None, ()),
    ("password", "wrong_password", ("user and password in [redis] url",)),
    ("login", "needs_login", ("user and password in [redis] url",)),
    ("untrusted", "untrusted_certificate", ("ssl_ca_certs in [redis] url",)),
    ("expired", "expired_certificate", ("renew it", "clock", "expired")),
    ("name", "wrong_host_name", ("another host name", "127.0.0.1")),
    ("needs tls", "needs_tls", ("rediss://",)),
    ("no tls", "no_tls", ("redis://",)),
    ("file", "unusable_file", ("/no/such/ca.pem", "No such file")),
    ("client", "client_certificate_refused", ("ssl_certfile",)),
]


@pytest.fixture(scope="module")
def redis_said(
    secured: Secured, servers: Servers, ports: Ports, stranger: Authority
) -> dict[str, tuple[Said, Said]]:
    """Return what is said to threads, and what to asyncio."""
    secured.redis.set_user(USER, "on", "resetpass", f">{PASSWORD}", "~*", "&*", "+@all")
    urls = _redis_urls(secured, servers, ports, stranger)

    def said(url: str) -> tuple[Said, Said]:
        settings = RedisSection(url=url)
        with closing(StatusStore(connect(settings), "g", settings)) as store:
            to_threads = _asked(lambda: store.read("r"))

        async def read() -> None:
            calls = AsyncStatusStore(connect_async(settings), "g", settings)
            try:
                await calls.read("r")
            finally:
                await calls.aclose()

        return to_threads, _asked(lambda: asyncio.run(read()))

    return {way: said(url) for way, url in urls.items()}


@pytest.mark.parametrize(("way", "kind", "words"), REDIS_WAYS, ids=[one[0] for one in REDIS_WAYS])
@pytest.mark.parametrize("arm", [0, 1], ids=["threads", "asyncio"])
def test_redis(
    redis_said: dict[str, tuple[Said, Said]],
    arm: int,
    way: str,
    kind: str | None,
    words: tuple[str, ...],
) -> None:
    found = {name: both[arm] for name, both in redis_said.items()}
    _check(found, way, kind, *words)
    # Nothing was sent before the refusal: a client may say so.
    assert kind is None or getattr(found[way].error, "never_reached", False)


# PostgreSQL --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sql_said(
    secured: Secured, servers: Servers, ports: Ports, stranger: Authority
) -> Iterator[dict[str, Said]]:
    secured.postgres.set_password(USER, PASSWORD)
    with secured.postgres.database(DATABASE) as name:
        secured.postgres.run(f'GRANT CONNECT ON DATABASE "{name}" TO "{USER}"', database=name)
        right = secured.postgres.url(USER, PASSWORD, name)
        place = right.partition("@")[2].partition("/")[0]
        cafile = str(secured.postgres.cafile)

        def at(port: int, trusted: Path) -> str:
            return right.replace(place, f"{HOST}:{port}").replace(cafile, str(trusted))

        urls = {
            "right": right,
            "password": secured.postgres.url(USER, "wrong", name),
            "untrusted": right.replace(cafile, str(stranger.cafile)),
            "expired": at(ports.expired, ports.expired_file),
            "name": at(ports.other_name, ports.other_file),
            "needs tls": f"{right.partition('?')[0]}?sslmode=disable",
            "no tls": f"{servers.postgres}?sslmode=require",
            "file": right.replace(cafile, "/no/such/ca.pem"),
        }

        def said(url: str) -> Said:
            with closing(Journal(url, group="g", worker_id="")) as journal:
                return _asked(journal.ping)

        yield {way: said(url) for way, url in urls.items()}


SQL_WAYS = [
    ("right", None, ()),
    ("password", "wrong_password", ("the journal", "[journal] url")),
    ("untrusted", "untrusted_certificate", ("sslrootcert in [journal] url",)),
    ("expired", "expired_certificate", ("renew it", "clock", "expired")),
    ("name", "wrong_host_name", ("another host name",)),
    ("needs tls", "needs_tls", ("sslmode=verify-full",)),
    ("no tls", "no_tls", ("sslmode=disable",)),
    ("file", "unusable_file", ("/no/such/ca.pem",)),
]


@pytest.mark.parametrize(("way", "kind", "words"), SQL_WAYS, ids=[one[0] for one in SQL_WAYS])
def test_postgresql(
    sql_said: dict[str, Said], way: str, kind: str | None, words: tuple[str, ...]
) -> None:
    _check(sql_said, way, kind, *words)
    assert "later" not in str(sql_said[way].error)


# Kafka: what `tests/feedback/kafka/kafka_python` cannot make with a real broker ------------


def test_kafka_with_a_certificate_that_is_refused(ports: Ports) -> None:
    def said(port: int, cafile: Path) -> Said:
        settings = KafkaSection(
            bootstrap_servers=f"{HOST}:{port}", security_protocol="SSL", ssl_cafile=str(cafile)
        )

        def ask() -> None:
            with administrator(settings, timeout_s=20.0):
                pass

        return _asked(ask)

    with ThreadPoolExecutor() as threads:
        expired = threads.submit(said, ports.expired, ports.expired_file)
        other = threads.submit(said, ports.other_name, ports.other_file)
        found = {"expired": expired.result(), "name": other.result()}
    _check(found, "expired", "expired_certificate", "renew it", "expired")
    _check(found, "name", "wrong_host_name", "[kafka] bootstrap_servers", HOST)


def test_a_password_file_of_postgresql_is_read_for_each_connection(
    secured: Secured, tmp_path: Path
) -> None:
    user, file = "renewed", tmp_path / "passfile"
    secured.postgres.set_password(user, PASSWORD)

    def write(password: str) -> None:
        file.write_text(f"*:*:*:{user}:{password}\n")
        file.chmod(0o600)

    with secured.postgres.database("renewed") as name:
        secured.postgres.run(f'GRANT CONNECT ON DATABASE "{name}" TO "{user}"', database=name)
        url = secured.postgres.url(user, "", name).replace(f"{user}:@", f"{user}@", 1)
        write("wrong")
        with closing(Journal(f"{url}&passfile={file}", group="g", worker_id="")) as journal:
            assert _asked(journal.ping).kind == "wrong_password"
            write(PASSWORD)
            assert _asked(journal.ping).error is None
