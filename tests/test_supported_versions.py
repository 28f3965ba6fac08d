"""docs/reference/supported-versions.md says "tested" of what `make test` uses, and of no more."""

from __future__ import annotations

import configparser
import platform
import re
import sys

import psycopg
from redis import Redis

from tests.documents import DOCS, ROOT
from tests.stack import Servers
from tests.stack.postgres import dsn

ROWS = {
    cells[0].strip(): [cell.strip() for cell in cells[1:]]
    for line in (DOCS / "reference/supported-versions.md").read_text("utf-8").splitlines()
    if (cells := line.strip("|").split("|")) and line.startswith("| ")
}
LOCK = (ROOT / "tests/requirements.lock").read_text("utf-8")
POM = (ROOT / "onceward/servers/pom.xml").read_text("utf-8")


def said_of(program: str) -> str:
    """Return the version that a row says is tested."""
    found = re.search(r"tested on (?:Debian )?([0-9.]+[0-9])", ROWS[program][1])
    assert found is not None, program
    return found[1]


def locked(package: str) -> str:
    """Return the version of a package that the tests install."""
    (found,) = re.findall(rf"^{package}==([0-9.]+)", LOCK, re.M)
    return str(found)


def test_each_row_says_tested_and_what_is_not() -> None:
    rows = [name for name in ROWS if name not in ("program", "---")]
    assert len(rows) >= 10
    assert [name for name in rows if "tested" not in ROWS[name][1]] == []


def test_python_packages_and_brokers_are_those_that_are_locked() -> None:
    packages = {
        "pyspark": "Spark",
        "kafka-python": "kafka-python",
        "confluent-kafka": "confluent-kafka",
    }
    for package, program in packages.items():
        assert locked(package) == said_of(program)
    for program in ("Django", "Flask", "Starlette"):
        assert locked(program.lower()).startswith(f"{said_of(program)}.")
    assert f"<kafka.version>{said_of('Kafka brokers')}</kafka.version>" in POM
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    classes = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    assert ROWS["Python"][0] == f"{classes[0]} to {classes[-1]}"


def test_the_servers_are_those_that_are_said_where_the_system_is(servers: Servers) -> None:
    """The page speaks of one system; it claims nothing of others, which may have other servers."""
    with Redis.from_url(servers.redis) as redis, psycopg.connect(dsn(servers.postgres)) as sql:
        runs = {
            "Redis": str(redis.info("server")["redis_version"]),
            "PostgreSQL": str(sql.info.server_version // 10000),
            "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        }
    system = platform.freedesktop_os_release()
    here = f"{system.get('NAME', '').split()[0]} {system.get('VERSION_ID')}"
    if f"tested on {here}" in ROWS["operating system"][1]:
        told = {name: said_of(name) for name in runs}
        assert {name: runs[name][: len(told[name])] for name in runs} == told
