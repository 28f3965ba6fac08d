"""What can be seen of a run: as a panel for a terminal, as a line otherwise. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from feedback.status import State
from tests.demo.payments import Progress
from tests.demo.workers import Phase, WorkerProcess

RATE_OVER_S = 3
BARS = " ▁▂▃▄▅▆▇█"
NOT_SENT_YET = "not sent yet"


@dataclass(frozen=True, slots=True)
class Look:
    """How a group of states is called and coloured."""

    label: str
    style: str
    states: frozenset[State]
    always_shown: bool = False

    def count(self, states: Mapping[State, int]) -> int:
        """Return how many payments are in these states."""
        return sum(states.get(state, 0) for state in self.states)


# In the order of the bar, from the end of the way to its beginning.
LOOKS = (
    Look("succeeded", "green", frozenset({State.SUCCEEDED}), always_shown=True),
    Look("in doubt", "yellow", frozenset({State.IN_DOUBT}), always_shown=True),
    Look(
        "failed",
        "red",
        frozenset({State.FAILED, State.EXPIRED, State.SKIPPED}),
        always_shown=True,
    ),
    Look("running", "bright_blue", frozenset({State.RUNNING, State.RETRYING}), always_shown=True),
    Look("accepted", "cyan", frozenset({State.ACCEPTED}), always_shown=True),
    Look("lost", "magenta", frozenset({State.LOST}), always_shown=True),
    Look("waiting in Kafka", "white", frozenset({State.PENDING}), always_shown=True),
    Look("unknown", "bright_red", frozenset({State.UNKNOWN})),
)


@dataclass(frozen=True, slots=True)
class View:
    """A moment of a run.

    Attributes:
        elapsed_s: since the demo began.
    """

    elapsed_s: float
    progress: Progress
    workers: tuple[WorkerProcess, ...]


def rate_of(told_each_s: Sequence[int]) -> float:
    """Return clients told per second, over the last whole seconds."""
    last = told_each_s[-RATE_OVER_S:]
    return sum(last) / len(last) if last else 0.0


def line(view: View) -> str:
    """Return the moment in one line.

    >>> told = Progress(9, 3, 2, {State.SUCCEEDED: 2, State.LOST: 1}, resent=1, told_each_s=(2,))
    >>> line(View(1.5, told, ()))
    'sent 3 of 9, told 2: 2 succeeded, 0 in doubt, 0 failed; open: 1 lost; resent 1; 2/s'
    """
    progress = view.progress
    ends = ", ".join(f"{look.count(progress.states):,} {look.label}" for look in LOOKS[:3])
    open_ = [(look.count(progress.states), look.label) for look in LOOKS[3:]]
    under_way = ", ".join(f"{count:,} {label}" for count, label in open_ if count) or "none"
    return (
        f"sent {progress.sent:,} of {progress.total:,}, told {progress.told:,}: {ends}; "
        f"open: {under_way}; resent {progress.resent:,}; {rate_of(progress.told_each_s):.0f}/s"
    )


def panel(view: View, *, width: int) -> RenderableType:
    """Return the moment as a panel, `width` characters wide."""
    inner = max(20, width - 6)
    progress = view.progress
    parts = [(look.count(progress.states), look.style) for look in LOOKS]
    parts.append((max(0, progress.total - sum(count for count, _ in parts)), "grey30"))
    bar = Text()
    for cells, (_, style) in zip(shares([n for n, _ in parts], inner), parts, strict=True):
        bar.append("█" * cells, style=style)
    return Panel(
        Group(bar, "", _counts(progress), "", _rate(progress, inner), _workers(view.workers)),
        title=f" {progress.told:,} of {progress.total:,} clients told ",
        subtitle=f" {view.elapsed_s:.1f} s ",
        border_style="grey50",
        padding=(0, 2),
        width=width,
    )


def shares(counts: Sequence[int], width: int) -> list[int]:
    """Return how many of `width` cells each count gets; what is there gets one at least.

    >>> shares([1, 0, 999], 10)
    [1, 0, 9]
    """
    total = sum(counts)
    if not total:
        return [0 for _ in counts]
    cells = [max(1, count * width // total) if count else 0 for count in counts]
    cells[cells.index(max(cells))] += width - sum(cells)
    return cells


def sparkline(values: Sequence[int], width: int) -> str:
    """Return the last `width` values as little bars, the largest of all the highest.

    >>> sparkline([0, 4, 8], 10)
    ' ▄█'
    """
    top = max(values, default=0) or 1
    steps = len(BARS) - 1
    return "".join(BARS[-(-value * steps // top)] for value in values[-width:])


def _counts(progress: Progress) -> Table:
    grid = Table.grid(padding=(0, 3, 0, 0))
    cells = [
        _count(look.label, count, style=look.style)
        for look in LOOKS
        for count in [look.count(progress.states)]
        if count or look.always_shown
    ]
    cells.append(_count("sent again", progress.resent, style="magenta", mark="↻"))
    columns = 4
    for first in range(0, len(cells), columns):
        row = cells[first : first + columns]
        grid.add_row(*row, *[""] * (columns - len(row)))
    return grid


def _count(label: str, count: int, *, style: str, mark: str = "■") -> Text:
    # As wide whatever the count, so that nothing jumps.
    return Text.assemble((f"{mark} ", style), label, (f"{count:>7,}", "bold"))


def _rate(progress: Progress, width: int) -> Text:
    rate = rate_of(progress.told_each_s)
    words = f"{rate:4.0f} told/s  "
    return Text.assemble(
        (words, "bold"), (sparkline(progress.told_each_s, width - len(words)), "green")
    )


def _workers(workers: Sequence[WorkerProcess]) -> Text:
    text = Text()
    for worker in workers:
        alive = worker.phase is Phase.ALIVE
        mark, style = ("●", "green") if alive else ("○", "red")
        text.append(f"{mark} ", style=style)
        text.append(f"{worker.name} ", style="bold")
        killed = f", killed {_times(worker.kills)}" if worker.kills else ""
        text.append(f"pid {worker.pid} {worker.phase}{killed}    ")
    return text


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
