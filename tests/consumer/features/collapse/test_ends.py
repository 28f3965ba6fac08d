"""What became of a round whose worker was killed, stopped, or lost its partition."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedback.status import State
from tests.consumer.features.collapse.sending import Burst, open_burst
from tests.eventually import eventually
from tests.stack import Servers

pytestmark = pytest.mark.waits

SUCCEEDED, SKIPPED = State.SUCCEEDED, State.SKIPPED


@pytest.fixture
def burst(servers: Servers, tmp_path: Path) -> Iterator[Burst]:
    """Yield a burst whose worker is to come to an end."""
    with open_burst(servers, f"sqlite:///{tmp_path}/journal.db", tmp_path, "collapsed") as made:
        yield made


def journal(burst: Burst) -> dict[str, tuple[str, str | None]]:
    """Return what the journal has of the burst."""
    rows = {one: burst.stage.row(one) for one in burst.sent}
    return {name: (row["state"], row["by"]) for name, row in rows.items() if row is not None}


def all_ended(burst: Burst) -> dict[str, str | None]:
    """Return how all ended, resending what was lost: the ids, and by whom they were skipped."""
    found = {}
    for name in burst.sent:
        status = burst.stage.client.wait(name, timeout_s=60, resend=True)
        assert status.state in (SUCCEEDED, SKIPPED), (name, status)
        found[name] = status.by if status.state is SKIPPED else None
    return found


def test_killed_while_the_one_runs_nothing_is_skipped_and_the_others_make_a_round_of_their_own(
    burst: Burst,
) -> None:
    worker = burst.stage.start()
    gate = burst.stage.gate()
    first = burst.send(applies=False, asked={"gate": gate.path})
    eventually(lambda: burst.asked() == [first])
    head_gate = burst.stage.gate()
    head, *others = burst.many(6, gate=head_gate.path)
    burst.has_read_all(worker)
    gate.open()
    burst.has_begun(head)
    worker.send(signal.SIGKILL)
    worker.wait()
    assert journal(burst) == {first: ("SKIPPED", None), head: ("CLAIMED", None)}
    head_gate.open()
    burst.stage.start()
    # An external handler: what ran is in doubt, and holds its key no longer.
    assert burst.stage.final(head, timeout_s=40).state is State.IN_DOUBT
    burst.sent = others
    ends = all_ended(burst)
    ran = {name for name, by in ends.items() if by is None}
    assert ran, "one of them at least"
    assert {by for by in ends.values() if by is not None} <= ran
    assert sorted(burst.runs()) == sorted([head, *ran]), "each of them once"


def test_killed_as_its_end_is_written_all_have_ended_with_it(
    servers: Servers, journal_url: str, tmp_path: Path
) -> None:
    """The finish and the skips are one transaction: none of them without the others."""
    with open_burst(servers, journal_url, tmp_path, "collapsed") as burst:
        _kill_at_the_end(burst)


def _kill_at_the_end(burst: Burst) -> None:
    head, *others = burst.fill(200, takes_s=0.05)
    worker = burst.stage.start()
    eventually(lambda: _has_succeeded(burst, head), interval_s=0.001)
    worker.send(signal.SIGKILL)
    worker.wait()
    assert journal(burst) == {head: ("SUCCEEDED", None)} | dict.fromkeys(others, (SKIPPED, head))
    # Whatever clients had been told by then, a peer tells the rest.
    burst.stage.start()
    for name in others[::20]:
        status = burst.stage.final(name, timeout_s=40)
        assert (status.state, status.by) == (SKIPPED, head)
    assert burst.runs() == [head]


def test_killed_between_a_childs_commit_and_the_skips_the_others_make_a_round_of_their_own(
    servers: Servers, postgres_url: str, tmp_path: Path
) -> None:
    """On PostgreSQL: who stands still might have SQLite's one lock."""
    with open_burst(servers, postgres_url, tmp_path, "committed") as burst:
        gate = burst.stage.gate()
        head = burst.send(gate=gate.path)
        others = burst.many(5)
        worker = burst.stage.start()
        burst.has_begun(head)
        # It hears of nothing any more, and its child commits.
        worker.send(signal.SIGSTOP)
        gate.open()
        eventually(lambda: _has_succeeded(burst, head))
        worker.send(signal.SIGKILL)
        worker.wait()
        assert journal(burst) == {head: ("SUCCEEDED", None)}
        burst.stage.start()
        assert burst.stage.final(head, timeout_s=40).state is SUCCEEDED
        burst.sent = others
        ends = all_ended(burst)
        ran = {name for name, by in ends.items() if by is None}
        assert {by for by in ends.values() if by is not None} <= ran
        assert sorted(burst.runs()) == sorted([head, *ran]), "each of them once"


def test_a_worker_that_is_stopped_gives_back_what_waits_and_the_next_one_collapses_it(
    burst: Burst,
) -> None:
    worker = burst.stage.start()
    gate = burst.stage.gate()
    head, *others = burst.many(6, gate=gate.path)
    burst.has_read_all(worker)
    burst.has_begun(head)
    worker.send(signal.SIGTERM)
    # What waits is given up before the loop hears of the run again.
    worker.told("worker.draining")
    gate.open()
    assert worker.wait() == 0
    assert journal(burst) == {head: ("SUCCEEDED", None)}
    burst.stage.start()
    found = [burst.stage.final(one) for one in others]
    assert [(one.state, one.by or None) for one in found] == [
        (SUCCEEDED, None),
        *[(SKIPPED, others[0])] * 4,
    ]
    assert burst.runs() == [head, others[0]]


def test_what_another_worker_has_read_again_is_answered_there(
    servers: Servers, postgres_url: str, tmp_path: Path
) -> None:
    """The partition goes while the one runs: both workers have the others in their key_queues.

    On PostgreSQL alone: a worker that stands still may hold the lock of an SQLite file.
    """
    with open_burst(servers, postgres_url, tmp_path, "collapsed") as burst:
        first = burst.stage.start()
        gate = burst.stage.gate()
        head = burst.send(gate=gate.path)
        others = burst.many(5)
        burst.has_begun(head)
        burst.has_read_all(first)
        eventually(lambda: bool(burst.stage.members()))
        # Of the only partition: it goes when its owner stands still for longer than its session.
        first.send(signal.SIGSTOP)
        second = burst.stage.start()
        eventually(lambda: _reads(burst) == 1, timeout_s=40, what="one member")
        first.send(signal.SIGCONT)
        gate.open()
        ends = [burst.stage.client.wait(one, timeout_s=60, resend=True) for one in others]
        by = {one.by for one in ends if one.state is SKIPPED}
        ran = {one.request_id for one in ends if one.state is SUCCEEDED}
        assert by <= ran | {head}
        assert len(burst.runs()) == 1 + len(ran)
        assert second.stop() == 0


def _has_succeeded(burst: Burst, name: str) -> bool:
    row = burst.stage.row(name)
    return row is not None and row["state"] == "SUCCEEDED"


def _reads(burst: Burst) -> int:
    return sum(burst.stage.members().values())
