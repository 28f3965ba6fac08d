"""`pytest --onceward-real`: the tests of a user on real servers, in a process of their own."""

from __future__ import annotations

import pytest
from kafka.admin import KafkaAdminClient
from redis import Redis

from onceward.dev.session_plan import KAFKA, REDIS
from tests.face.test_testing import EXAMPLES
from tests.stack import Servers

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.waits, pytest.mark.timeout(600)]
REAL = ("--onceward-real", "-p", "no:cacheprovider", "-rs")
LEFT = "onceward-test-"
# Notes what makes the names of its benches: others may run tests on the same servers.
NOTED = """
import secrets

_made = secrets.token_hex


def noted(size):
    made = _made(size)
    with open("made.txt", "a") as file:
        print(made, file=file)
    return made


secrets.token_hex = noted
"""
TESTS = """
import os

from sqlalchemy import text

from onceward import Happened, Request, State, Unknown, handler
from onceward.testing import Counterparty, Point

bank = Counterparty()
# Of the test, of the first child, and of the one that went on for it.
PROCESSES = %d


def ask(request: Request) -> Happened | Unknown:
    return Happened({"found": True}) if bank.knows(request.idempotency_key) else Unknown()


# Longer than any run takes on a slow machine: only the one that hangs is to be killed.
@handler(topic="payments", effect="marked", time_limit_s=10, in_doubt="retry_same_key")
def charge(request: Request) -> dict:
    with request.effect():
        bank.call(request.idempotency_key)
    return {"child": os.getpid()}


@handler(topic="asked", effect="marked", in_doubt="query", query=ask)
async def asked(request: Request) -> dict:
    async with request.effect():
        bank.call(request.idempotency_key)
    return {"found": False}


@handler(topic="seats", effect="transactional")
def book(request: Request) -> int:
    run = request.connection.execute
    run(text("CREATE TABLE IF NOT EXISTS seat (name TEXT)"))
    run(text("INSERT INTO seat VALUES ('12A')"))
    return int(run(text("SELECT count(*) FROM seat")).scalar_one())


@handler(topic="late", retries="1s", retry_on=ConnectionError)
def late(request: Request) -> None:
    bank.call(request.idempotency_key)
    raise ConnectionResetError("the answer was lost")


@handler(topic="together", effect="marked", retries="10m", retry_on=ConnectionError)
def together(request: Request) -> None:
    if request.request_id == "refused":
        raise ConnectionRefusedError
    with request.effect(), request.effect():
        bank.call(request.idempotency_key)


def test_a_retry_runs_when_it_is_due(onceward_bench):
    bank.forget()
    bench = onceward_bench(late)
    bench.run_with_retries(None, request_id="a")
    outcome = bench.outcome("a")
    assert (outcome.state, outcome.runs, bank.times_acted) == ("FAILED", 2, 2)


def test_an_effect_entered_twice_counts_once_and_a_long_wait_is_not_awaited(onceward_bench):
    bench = onceward_bench(together)
    assert bench.run().effects == 1
    bench.run_with_retries(None, request_id="refused")


def test_a_bank_that_knows_no_keys_acts_twice(onceward_bench):
    bank.forget()
    bench = onceward_bench(charge)
    first = bench.run({"amount": 5}, request_id="a", duplicates=2)
    assert (first.runs, first.effects, first.state) == (1, 1, "SUCCEEDED")
    bench.die_in_effect()
    second = bench.run({"amount": 5}, request_id="b")
    children = {os.getpid(), first.status.result["child"], second.status.result["child"]}
    assert len(children) == PROCESSES
    assert (second.runs, second.effects) == (2, 2)
    assert sorted(bank.acted.values()) == [1, 2]


def test_a_run_that_hangs_is_killed_for_its_time_limit_and_a_journal_may_be_away(onceward_bench):
    bank.forget()
    bench = onceward_bench(charge)
    bench.time_limit()
    hung = bench.run(request_id="hangs")
    assert (hung.status.state, hung.runs, bank.times_acted) == (State.SUCCEEDED, 2, 1)
    bench.journal_away(Point.AFTER_EFFECT)
    outcome = bench.run(request_id="away")
    assert (outcome.status.state, outcome.runs, bank.times_acted) == (State.SUCCEEDED, 1, 2)


def test_the_counterparty_is_asked_after_a_death(onceward_bench):
    bank.forget()
    bench = onceward_bench(asked)
    bench.die_in_effect()
    outcome = bench.run()
    assert (outcome.status.result, outcome.runs, bank.times_acted) == ({"found": True}, 1, 1)


def test_a_transactional_run_that_dies_leaves_nothing_and_time_is_not_moved():
    from onceward.testing import Bench

    with Bench(book) as bench:
        bench.die_after_effect()
        outcome = bench.run(request_id="a")
        assert (outcome.status.result, outcome.runs, outcome.commits) == (1, 2, 1)
        bench.advance(60)


def test_a_handler_in_a_function_is_refused(onceward_bench):
    @handler(topic="inner")
    def inner(request: Request) -> None: ...

    onceward_bench(inner)


def test_a_front_end_says_itself_how_its_requests_go_on(onceward_client):
    onceward_client.send({"amount": 5}, topic="payments")
"""


@pytest.fixture(autouse=True)
def _settings(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KAFKA, servers.kafka)
    monkeypatch.setenv(REDIS, servers.redis)


def test_a_users_tests_run_on_real_servers_and_leave_nothing_there(
    pytester: pytest.Pytester, servers: Servers
) -> None:
    pytester.makepyfile(test_shop=TESTS % 3)
    pytester.makeconftest(NOTED)
    ran = pytester.runpytest_subprocess(*REAL)
    # Two of those that are skipped have come to their last line: one of their asserts fails before.
    ran.assert_outcomes(passed=4, skipped=4)
    ran.stdout.fnmatch_lines(
        [
            f"onceward: Kafka found running at {servers.kafka}",
            "*together: a real retry waits for its [56]?? s; declare at most 10",
            "*advance: the clocks of real servers are nobody's to move",
            "*inner: on real servers a child imports the handler, so declare it at the top*",
            "*MemoryClient: the test says how its requests go on*",
        ]
    )
    names = [LEFT + made for made in (pytester.path / "made.txt").read_text().split()]
    assert len(names) >= 6, "one for each bench"
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        assert not [one for one in admin.list_topics() if one.startswith(tuple(names))]
        groups = [one["group_id"] for one in admin.list_groups()]
    assert not [one for one in groups if one.startswith(tuple(names))]
    with Redis.from_url(servers.redis) as redis:
        assert not [key for one in names for key in redis.scan_iter(f"onceward:{one}*", count=1000)]


def test_the_same_tests_say_the_same_in_memory(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=TESTS % 1)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=8)


@pytest.mark.long
def test_the_examples_of_the_documents_run_on_real_servers_too(pytester: pytest.Pytester) -> None:
    handlers, front_end = EXAMPLES.values()
    pytester.makepyfile(test_payments=handlers, test_shop=front_end)
    # In two processes, which share the servers.
    ran = pytester.runpytest_subprocess(*REAL, "-n", "2")
    ran.assert_outcomes(passed=2, skipped=1)


def test_servers_that_are_away_end_the_run_with_a_sentence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KAFKA, "kafka.invalid:9092")
    pytester.makepyfile(test_shop=TESTS % 3)
    ran = pytester.runpytest_subprocess(*REAL)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    ran.stderr.fnmatch_lines(["*--onceward-real:*kafka.invalid:9092*"])
    assert "Traceback" not in ran.stderr.str()
