"""Fixtures on real servers; a test that asks for none of them starts none."""

import gc
import os
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from kafka.admin import KafkaAdminClient, NewTopic

from onceward.servers.kafka import SOON_MISSED, Broker
from tests import failure_report, time_limit
from tests.kit.compiled_once import compile_once
from tests.kit.databases import ReusedDatabase
from tests.kit.kept_logs import kept_logs
from tests.selection import in_order, mark_other_databases
from tests.stack import Servers, Stack
from tests.stack.restartable import Restartable, restartable
from tests.stack.secured_stack import Secured, secured_stack

# A machine that is busy with servers is slow now and then: that is no finding.
settings.register_profile(
    "onceward",
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("onceward")
compile_once()


def pytest_configure(config: pytest.Config) -> None:
    """Bound what a failed test does after it."""
    config.pluginmanager.register(time_limit)


def pytest_sessionstart() -> None:
    """Leave colours to pytest: commands under test write into files, and would obey as well."""
    for wish in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        os.environ.pop(wish, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a report hold what somebody needs who has not seen the test."""
    try:
        report = yield
    except BaseException:
        # An exception of a test's own making may refuse to be shown, by any other one. That would
        # end the whole run.
        report = failure_report.without_words(item, call)
    failure_report.add_to(item, report, Servers.of_environment(os.environ))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Let a report go to another process, whatever a test has logged, raised or compared.

    That process takes no text that is no UTF-8: it would end the whole run, and name no test.
    """
    return failure_report.as_utf8((yield))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Say how a test is repeated that has ended its process."""
    servers = Servers.of_environment(os.environ)
    report.sections.extend(failure_report.sections(crashitem, servers))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Put the logs back: a command that a test calls in its own process configures them."""
    with kept_logs():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: it would look at a million objects that all stay.

    It need not look at them again and again while tests run either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Choose tests, and an order that keeps the processors busy to the end, see `selection`."""
    mark_other_databases(items)
    yield
    items[:] = in_order(items, workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Kafka, Redis and PostgreSQL: those of the environment, else a stack for this session."""
    with Stack.start() as started:
        yield started


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Yield servers with TLS, passwords and rights: a second broker, so not for every test."""
    with secured_stack(tmp_path_factory.mktemp("secured")) as started:
        yield started


@pytest.fixture(scope="session")
def mortal_broker() -> Iterator[Restartable]:
    """Yield a broker that tests kill and forbid topics on; each leaves it up."""
    guarded = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with restartable(lambda: Broker(settings=SOON_MISSED | guarded)) as running:
        yield running


@pytest.fixture
def no_given_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the servers out of the environment: they would win over a test's own settings."""
    for name in Servers("kafka", "redis", "postgresql:").settings():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def topic(servers: Servers) -> Callable[..., str]:
    """Return a factory `topic(partitions=4)` of new topics; they stay as long as the broker."""

    def create(
        partitions: int = 4, *, name: str = "", configs: Mapping[str, str] | None = None
    ) -> str:
        name = name or f"topic-{uuid.uuid4().hex}"
        # One client a call: a client kept open has threads, and the tests here fork.
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
            admin.wait_for_topics([name])
        return name

    return create


@pytest.fixture
def group() -> str:
    """Return the name of a consumer group nobody else uses."""
    return f"group-{uuid.uuid4().hex}"


@pytest.fixture
def redis_url(servers: Servers) -> str:
    """Return the URL of a Redis shared by all tests: unique groups keep them apart."""
    return servers.redis


@pytest.fixture(scope="session")
def reused_database(servers: Servers) -> Iterator[ReusedDatabase]:
    """Yield the database that the tests of this process have one after the other."""
    with closing(ReusedDatabase(servers.postgres)) as reused:
        yield reused


@pytest.fixture
def postgres_url(reused_database: ReusedDatabase) -> str:
    """Return the URL of an empty PostgreSQL database."""
    return reused_database.empty()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return the URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'journal.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def journal_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty journal: the test runs once on each kind of store."""
    # Asked for by name, so that the run on SQLite starts no server.
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
