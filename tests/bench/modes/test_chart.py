"""The drawing: lines within their frame, ceilings with their own text, one file for arm and N."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.measure.cost import Cost
from tests.bench.modes.arm import Arm
from tests.bench.modes.calls import Call
from tests.bench.modes.chart import svg, write
from tests.bench.modes.found import Found
from tests.bench.modes.mode import Mode
from tests.bench.modes.plan import Case
from tests.bench.modes.plotted import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, plotted
from tests.bench.modes.steady import Steady

SVG = "{http://www.w3.org/2000/svg}"


def found(mode: Mode, tps: float, *, arm: Arm = Arm.SLOW, n: int = 10, number: int = 1) -> Found:
    calls = [Call(str(at), 100.0, 100 + at / tps, 0.2) for at in range(int(30 * tps))]
    steady = Steady(tps=tps, seconds=28.0, late_ms=0.5)
    return Found(Case(mode, arm, n, 30.0, 0), number, steady, Cost({"worker": 1.0}, 2.0), calls)


def test_every_line_lies_within_the_frame() -> None:
    drawing = plotted([found(Mode.AT_MOST_ONCE, 35.0), found(Mode.BATCH, 9.5)])
    for line in drawing.lines:
        points = [tuple(map(float, point.split(","))) for point in line.points.split()]
        assert len(points) == 14
        assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in points)
    assert [ceiling.text for ceiling in drawing.ceilings] == ["ceiling 10/s", "ceiling 35.71/s"]


def test_a_higher_rate_is_drawn_higher() -> None:
    quick, slow = plotted([found(Mode.AT_MOST_ONCE, 35.0), found(Mode.BATCH, 9.0)]).lines
    height = [float(re.split("[, ]", line.points)[1]) for line in (quick, slow)]
    assert height[0] < height[1]
    assert quick.colour != slow.colour


def test_modes_of_the_same_ceiling_share_its_line() -> None:
    drawing = plotted([found(Mode.AT_MOST_ONCE, 35.0), found(Mode.AT_LEAST_ONCE, 34.0)])
    assert len(drawing.ceilings) == 1


def test_texts_of_ceilings_that_are_near_each_other_keep_apart() -> None:
    both = [found(mode, 1.5, arm=Arm.ONE_PERCENT_60S, n=50) for mode in (Mode.BATCH,)]
    high = found(Mode.AT_MOST_ONCE, 2_000.0, arm=Arm.SLOW, n=500)
    low, top = plotted([*both, high]).ceilings
    assert low.text_y - top.text_y >= 14


def test_the_file_is_a_drawing_with_axes_and_a_legend() -> None:
    root = ElementTree.fromstring(svg([found(Mode.AT_MOST_ONCE, 35.0), found(Mode.BATCH, 9.5)]))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "calls answered per second, mean of 2 s" in texts
    assert "seconds since the first answer" in texts
    assert "batch: 9.5/s, 95.0% of its ceiling" in texts
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    dashed = [line for line in root.iter(f"{SVG}line") if "stroke-dasharray" in line.attrib]
    assert len(dashed) == 2


@pytest.mark.parametrize("size", [10, 50])
def test_each_arm_and_n_has_a_file_of_its_last_round(tmp_path: Path, size: int) -> None:
    first, last = (found(Mode.BATCH, tps, n=size, number=at) for at, tps in ((1, 8.0), (2, 9.0)))
    paths = write([first, last], tmp_path)
    assert [path.name for path in paths] == [f"modes-slow-{size}.svg"]
    assert "batch: 9.0/s" in paths[0].read_text()
    assert "batch: 8.0/s" not in paths[0].read_text()
