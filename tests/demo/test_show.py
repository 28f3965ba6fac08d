"""What decides and what is seen: the plan, the lines, the panel."""

import io

import pytest
from rich.console import Console

from feedback.status import State
from tests.demo.payments import Progress
from tests.demo.plan import WORKERS, Plan
from tests.demo.story import Story
from tests.demo.view import View, line, panel, shares, sparkline
from tests.demo.workers import Phase, WorkerProcess
from tests.kit.screen import Screen

PROGRESS = Progress(
    total=2000,
    sent=1250,
    told=1203,
    states={State.SUCCEEDED: 1200, State.IN_DOUBT: 3, State.LOST: 31, State.PENDING: 16},
    resent=7,
    told_each_s=(90, 110, 130, 0),
)
VIEW = View(
    12.3,
    PROGRESS,
    (
        WorkerProcess("worker-1", 11, Phase.ALIVE),
        WorkerProcess("worker-2", 12, Phase.STARTING, kills=2),
    ),
)


def test_the_seed_decides_who_dies_and_when() -> None:
    plan = Plan(payments=2000, seed=7)

    assert plan == Plan(payments=2000, seed=7)
    assert 700 <= plan.first_at <= 900
    assert {Plan(2000, seed).victim(0) for seed in range(20)} == set(range(WORKERS))
    assert len({Plan(2000, seed).first_at for seed in range(20)}) > 10


def test_without_kill_every_there_is_one_kill() -> None:
    plan = Plan(payments=100, seed=1)

    assert not plan.is_due(kills=0, told=plan.first_at - 1, sending=True, since_last_s=99.0)
    assert plan.is_due(kills=0, told=plan.first_at, sending=True, since_last_s=0.0)
    assert not plan.is_due(kills=1, told=100, sending=True, since_last_s=99.0)


def test_further_kills_come_by_the_clock_and_end_with_the_sending() -> None:
    plan = Plan(payments=100, seed=1, kill_every_s=5.0)

    assert not plan.is_due(kills=1, told=90, sending=True, since_last_s=4.9)
    assert plan.is_due(kills=1, told=90, sending=True, since_last_s=5.0)
    assert not plan.is_due(kills=1, told=90, sending=False, since_last_s=5.0)


def test_a_line_says_everything_that_is_not_zero() -> None:
    assert line(VIEW) == (
        "sent 1,250 of 2,000, told 1,203: 1,200 succeeded, 3 in doubt, 0 failed; "
        "open: 31 lost, 16 waiting in Kafka; resent 7; 80/s"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_panel_fits_its_width(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(panel(VIEW, width=width))
    shown = console.export_text()

    assert max(map(len, shown.splitlines())) <= width
    assert "1,203 of 2,000 clients told" in shown
    assert "worker-2" in shown


def test_a_bar_is_as_wide_as_asked_and_shows_the_smallest_share() -> None:
    for counts in ([1200, 3, 31, 16, 750], [1, 1, 1], [0, 5], [1999, 1]):
        cells = shares(counts, 94)
        assert sum(cells) == 94
        assert all(bool(cell) == bool(count) for cell, count in zip(cells, counts, strict=True))
    assert sum(shares([0, 0], 94)) == 0


def test_a_sparkline_shows_the_last_values_and_a_gap_as_a_gap() -> None:
    assert sparkline([5, 100, 0, 100], 3) == "█ █"
    assert sparkline([], 3) == ""


def test_each_thing_is_told_once() -> None:
    story = Story()

    assert len(list(story.notice(PROGRESS))) == 3
    assert list(story.notice(PROGRESS)) == []


def test_a_pipe_gets_plain_lines_and_a_terminal_a_panel() -> None:
    piped = Console(file=io.StringIO(), force_terminal=False)
    dumb = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    terminal = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})

    assert not Screen(piped).is_live
    assert not Screen(dumb).is_live
    assert Screen(terminal).is_live


def test_lines_come_every_few_seconds_without_escape_codes() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, width=40))
    for elapsed_s in (0.1, 3.1, 3.2, 5.9, 6.2):
        view = View(elapsed_s, PROGRESS, ())
        screen.show(panel(view, width=40), line=line(view), at_s=elapsed_s)

    assert written.getvalue().count("\n") == 2
    assert "\x1b" not in written.getvalue()
