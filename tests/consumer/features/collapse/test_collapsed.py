"""Requests of a key that wait together, on real servers: one runs, the others end by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.features.collapse.sending import Burst, open_burst
from tests.eventually import eventually
from tests.stack import Servers

MakeBurst = Callable[..., Burst]
SUCCEEDED, SKIPPED, FAILED = State.SUCCEEDED, State.SKIPPED, State.FAILED
NO = (SKIPPED, "NOT_APPLICABLE")


@pytest.fixture
def make_burst(servers: Servers, tmp_path: Path) -> Iterator[MakeBurst]:
    """Yield a factory of bursts, on SQLite unless `journal_url` names another journal."""
    with ExitStack() as opened:

        def make(name: str = "collapsed", journal_url: str = "", **worker: Any) -> Burst:
            url = journal_url or f"sqlite:///{tmp_path}/journal.db"
            return opened.enter_context(open_burst(servers, url, tmp_path, name, **worker))

        yield make


def states(burst: Burst) -> list[tuple[str, str | None]]:
    """Return what the journal says of all, in the order in which they were sent."""
    found = [burst.stage.row(one) for one in burst.sent]
    return [(row["state"], row["by"]) for row in found if row is not None]


def test_five_hundred_that_wait_together_run_once_and_the_others_name_the_one(
    make_burst: MakeBurst, journal_url: str
) -> None:
    burst = make_burst(journal_url=journal_url)
    head, *others = burst.fill(500, takes_s=0.25)
    worker = burst.stage.start()
    last = burst.stage.final(others[-1], timeout_s=60)
    assert (last.state, last.by) == (SKIPPED, head)
    ended = burst.stage.execute(
        'SELECT state, "by", count(*) FROM onceward_request GROUP BY state, "by" ORDER BY state'
    )
    assert [tuple(one) for one in ended] == [("SKIPPED", head, 499), ("SUCCEEDED", None, 1)]
    assert (burst.runs(), burst.asked()) == ([head], [head])
    worker.told("requests.skipped")
    assert [one["count"] for one in worker.events("requests.skipped")] == [499]
    # Each client is told.
    assert {burst.stage.final(one).by for one in others[::50]} == {head}
    assert worker.stop() == 0


def test_what_comes_while_one_runs_is_not_covered_by_it_and_makes_the_next_round(
    make_burst: MakeBurst,
) -> None:
    burst = make_burst()
    worker = burst.stage.start()
    gate = burst.stage.gate()
    head = burst.send(gate=gate.path)
    burst.has_begun(head)
    second, third = burst.many(2)
    burst.has_read_all(worker)
    gate.open()
    assert burst.states() == [(SUCCEEDED, ""), (SUCCEEDED, ""), (SKIPPED, second)]
    assert burst.runs() == [head, second]
    assert third not in burst.asked()


def test_one_that_fails_lets_the_next_run_and_nothing_ends_by_it(
    make_burst: MakeBurst, journal_url: str
) -> None:
    burst = make_burst(journal_url=journal_url)
    burst.send(do="reject")
    burst.send(do="doubt")
    burst.send(asked={"do": "raise"})
    burst.send(asked={"do": "reject"})
    good = burst.send()
    burst.many(3)
    burst.stage.start()
    assert burst.states() == [
        (FAILED, "CARD_EXPIRED"),
        (State.IN_DOUBT, "IN_DOUBT"),
        (FAILED, "HANDLER_ERROR"),
        (FAILED, "CARD_EXPIRED"),
        (SUCCEEDED, ""),
        *[(SKIPPED, good)] * 3,
    ]
    assert burst.runs() == [burst.sent[0], burst.sent[1], good]
    row = burst.stage.row(burst.sent[2])
    assert row is not None
    assert row["message"] == "OSError: the bank is on fire"


def test_those_that_do_not_apply_end_as_that_until_one_does(make_burst: MakeBurst) -> None:
    burst = make_burst()
    burst.many(2, applies=False)
    good = burst.send()
    burst.many(2, applies=False)
    burst.stage.start()
    assert burst.states() == [NO, NO, (SUCCEEDED, ""), (SKIPPED, good), (SKIPPED, good)]
    assert (burst.runs(), burst.asked()) == ([good], burst.sent[:3])


def test_while_one_waits_for_its_retry_nothing_ends_and_its_success_ends_what_waits_then(
    make_burst: MakeBurst,
) -> None:
    burst = make_burst("retried")
    head = burst.send(fails=2)
    burst.many(5)
    burst.stage.start()
    burst.has_begun(head, times=3)
    assert burst.states() == [(SUCCEEDED, ""), *[(SKIPPED, head)] * 5]
    assert burst.runs() == [head] * 3


def test_one_that_fails_for_good_after_its_retries_lets_the_next_run(make_burst: MakeBurst) -> None:
    burst = make_burst("retried")
    head = burst.send(fails=9)
    good = burst.send()
    burst.many(3)
    burst.stage.start()
    found = burst.states()
    assert found == [(FAILED, "HANDLER_ERROR"), (SUCCEEDED, ""), *[(SKIPPED, good)] * 3]
    assert burst.runs() == [head] * 4 + [good]


def test_a_run_after_one_in_doubt_is_not_asked_whether_it_applies(make_burst: MakeBurst) -> None:
    burst = make_burst("same-key")
    head = burst.send(dies=1)
    burst.many(3)
    burst.stage.start()
    assert burst.states() == [(SUCCEEDED, ""), *[(SKIPPED, head)] * 3]
    assert (burst.runs(), burst.asked()) == ([head] * 2, [head])


def test_a_run_after_one_in_doubt_answers_nothing_that_came_after_the_first_had_begun(
    make_burst: MakeBurst,
) -> None:
    burst = make_burst("same-key")
    worker = burst.stage.start()
    gate = burst.stage.gate()
    head = burst.send(dies=1, before="gate", gate=gate.path)
    burst.has_begun(head)
    second, _ = burst.many(2)
    burst.has_read_all(worker)
    gate.open()
    assert burst.states() == [(SUCCEEDED, ""), (SUCCEEDED, ""), (SKIPPED, second)]
    assert burst.runs() == [head, head, second]


def test_what_waits_beyond_its_deadline_expires(make_burst: MakeBurst) -> None:
    burst = make_burst()
    worker = burst.stage.start()
    gate = burst.stage.gate()
    first = burst.send(applies=False, asked={"gate": gate.path})
    eventually(lambda: burst.asked() == [first], what="the question")
    head = burst.send(takes_s=1.0)
    late = burst.send(deadline_s=1.0)
    burst.send()
    burst.has_read_all(worker)
    gate.open()
    burst.has_begun(head)
    deadline_at = burst.stage.client.status(late).deadline_at
    assert deadline_at is not None
    found = burst.states()
    assert epoch_ms() > deadline_at
    expired = found[2][0]
    assert found == [NO, (SUCCEEDED, ""), (expired, found[2][1]), (SKIPPED, head)]
    assert (expired, states(burst)[2]) == (State.EXPIRED, ("EXPIRED", None))


def test_a_predicate_that_hangs_is_ended_by_the_time_limit_and_the_next_one_runs(
    make_burst: MakeBurst,
) -> None:
    burst = make_burst("collapsed-soon")
    burst.send(asked={"do": "hang"})
    good = burst.send()
    burst.send()
    burst.stage.start()
    # An external handler: nobody can know how far it got.
    assert burst.states() == [(State.IN_DOUBT, "TIMEOUT"), (SUCCEEDED, ""), (SKIPPED, good)]


def test_other_keys_and_requests_without_a_key_are_not_touched(make_burst: MakeBurst) -> None:
    burst = make_burst(processes=2)
    mine = burst.many(3)
    other = burst.many(3, key="other")
    alone = [burst.stage.produce(b"{}", handler="collapsed").coordinates_id for _ in range(2)]
    burst.stage.start()
    assert burst.states() == [
        (SUCCEEDED, ""),
        *[(SKIPPED, mine[0])] * 2,
        (SUCCEEDED, ""),
        *[(SKIPPED, other[0])] * 2,
    ]
    assert [burst.stage.final(one).state for one in alone] == [SUCCEEDED] * 2
    assert sorted(burst.runs()) == sorted([mine[0], other[0], *alone])


@pytest.mark.parametrize("name", ["committed", "awaited"])
def test_it_is_the_same_with_transactions_and_on_the_event_loop(
    make_burst: MakeBurst, name: str
) -> None:
    burst = make_burst(name)
    burst.send(applies=False)
    good, *_ = burst.many(4)
    burst.stage.start()
    assert burst.states() == [NO, (SUCCEEDED, ""), *[(SKIPPED, good)] * 3]
    assert burst.runs() == [good]
    # A resend is answered with what it ended as.
    again = burst.stage.client.send(
        {"number": 2}, key="k", topic=burst.stage.topics[name], request_id=burst.sent[2]
    ).wait(timeout_s=60)
    assert (again.state, again.by) == (SKIPPED, good)
