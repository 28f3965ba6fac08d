"""What a worker finds that the database has lost of its own runs."""

from collections.abc import Callable
from typing import Any

import pytest

from consumer.journal import OwnRun, Row
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.in_flight import InFlight
from consumer.loop.mapping import claim, finish
from consumer.loop.own_runs import OwnRuns
from consumer.pool import Finished, Outcome
from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.samples import SHA, begin, delivery, row

RUN = ("a", 1)


class Claims:
    """A journal in which these claims of the worker stand."""

    def __init__(self, *rows: Row) -> None:
        self._rows = list(rows)
        self.spend: Callable[[], None] = lambda: None

    def own_claims(self) -> list[Row]:
        self.spend()
        return self._rows


def running(*, is_entered: bool = False) -> InFlight:
    """Return hands with one run, which the journal has let into its effect or not."""
    held = InFlight()
    begin(held, delivery("a"))
    if is_entered:
        held.effects_answered({RUN})
    return held


def lost(held: InFlight, *rows: Row) -> list[tuple[str, int]]:
    journal: Any = Claims(*rows)
    OwnRuns(in_flight=held, journal=journal, every_s=5.0).look()
    return [(one.request_id, one.generation) for one in held.lost]


@pytest.mark.parametrize(("effect_at", "found"), [(None, [RUN]), (1, [])])
def test_an_effect_that_the_journal_no_longer_has_is_to_be_marked_again(
    effect_at: int | None, found: list[tuple[str, int]]
) -> None:
    held = running(is_entered=True)
    stands = row("a", "CLAIMED", effect_at=effect_at, payload_sha256=SHA)
    assert lost(held, stands) == found


def test_a_run_that_is_as_the_journal_says_or_whose_end_is_about_to_be_written_is_left_alone() -> (
    None
):
    stands = row("a", "CLAIMED", effect_at=None, payload_sha256=SHA)
    assert lost(running(), stands) == []
    held = running(is_entered=True)
    held.hear(Finished(*RUN, Outcome(State.SUCCEEDED)))
    assert lost(held, stands) == []
    assert lost(held) == [RUN]


def test_of_a_run_that_is_lost_it_is_known_how_the_one_before_it_ended_here() -> None:
    mine = delivery("a")._replace(deadline_at=epoch_ms() + 60_000)
    ended = EndedRuns()
    held = InFlight(ended=ended)
    begin(held, mine, generation=2)
    declared = finish(RUN, Outcome(State.FAILED, resend=True))
    ended.note(OwnRun(claim(mine), 1, entered=False, finish=declared))
    assert lost(held) == [RUN, ("a", 2)]


def test_looks_that_take_the_database_long_twice_in_a_row_are_repeated_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, takes_s = [100.0], [2.0]

    def spend() -> None:
        now_s[0] += takes_s[0]

    monkeypatch.setattr("consumer.loop.own_runs.monotonic_s", lambda: now_s[0])
    journal: Any = Claims()
    own_runs = OwnRuns(in_flight=InFlight(), journal=journal, every_s=5.0)
    assert [own_runs.look_if_due(at_s) for at_s in (105.0, 110.0, 112.0)] == [True, True, False]
    journal.spend = spend
    assert [own_runs.look_if_due(at_s) for at_s in (115.0, 119.0, 120.0)] == [True, False, True]
    assert [own_runs.look_if_due(at_s) for at_s in (219.0, 220.0)] == [False, True]
    takes_s[0] = 600.0
    # Nor is one that a frozen host drew out.
    assert [own_runs.look_if_due(at_s) for at_s in (400.0, 499.0, 500.0)] == [True, False, True]
    assert [own_runs.look_if_due(at_s) for at_s in (799.0, 800.0)] == [False, True]
