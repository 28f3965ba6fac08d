"""The charts: calls answered in a second, over time, one line for each mode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tests.bench.modes import plotted
from tests.bench.modes.arm import Arm
from tests.bench.modes.found import Found

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)


def svg(found: Sequence[Found]) -> str:
    """Return the drawing of measurements of one arm and N, one of each mode."""
    arm, n = found[0].case.arm, found[0].case.n
    template = _ENVIRONMENT.get_template("chart.svg.j2")
    return template.render(
        title=f"{n} at a time, {_in_words(arm)}", drawing=plotted.plotted(found), frame=plotted
    )


def write(found: Sequence[Found], folder: Path) -> list[Path]:
    """Write `modes-<arm>-<n>.svg` for each arm and N, of the last round of each mode."""
    last = {(one.case.arm, one.case.n, one.case.mode): one for one in found}
    paths = []
    for arm, n in dict.fromkeys((arm, n) for arm, n, _ in last):
        of_both = [one for key, one in last.items() if key[:2] == (arm, n)]
        paths.append(folder / f"modes-{arm}-{n}.svg")
        paths[-1].write_text(svg(of_both), encoding="utf-8")
    return paths


def _in_words(arm: Arm) -> str:
    delays = arm.delays
    if delays.slow_s == delays.usual_s:
        return f"the counterparty takes {1000 * delays.usual_s:g} ms"
    return (
        f"the counterparty takes {delays.slow_s:g} s for one in {delays.cycle}, "
        f"else {1000 * delays.usual_s:g} ms"
    )
