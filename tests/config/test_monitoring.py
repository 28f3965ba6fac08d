"""Alert rules and dashboards: Prometheus reads them, and each names metrics that a process has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.dashboards.boards import FOLDER, dashboard
from docs.dashboards.tables import BOARDS, Board
from docs.generators.metrics import all_metrics
from tests.config.monitoring import CONFIG, QUERIES, RULES, filled, objections
from tests.documents import examples

# Figures of a whole group that several workers or relays may show at once.
SHARED = re.compile(r"onceward_(doubts_|dead_letters_(waiting|oldest)|outbox_(oldest|parked_rows))")
OF_ALL_PROCESSES = {"process_resident_memory_bytes"}


def known() -> set[str]:
    """Return the names of all series, histograms by their parts."""
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    return OF_ALL_PROCESSES | {
        one.name + end
        for metrics in all_metrics().values()
        for one in metrics
        for end in ends.get(one.kind, ("",))
    }


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_each_dashboard_is_the_one_of_its_table(board: Board) -> None:
    written = (FOLDER / board.file).read_text(encoding="utf-8")
    assert written == dashboard(board), "it is old: python -m docs.dashboards"


def test_there_is_no_dashboard_without_a_table() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {board.file for board in BOARDS}


def test_every_metric_in_rules_and_dashboards_is_one_of_a_process() -> None:
    text = " ".join([RULES.read_text(), *QUERIES])
    named = set(re.findall(r"(?:onceward|process)_\w+", text))
    assert len(named) > 35
    assert named - known() == set()


def test_figures_of_a_whole_group_are_taken_by_max() -> None:
    rules = re.findall(r"expr: (.+)", RULES.read_text())
    for expression in [*rules, *QUERIES]:
        if SHARED.search(expression):
            assert re.match(r"max by \((topic|job)\) \(", expression), expression


def test_every_query_is_of_the_jobs_that_are_chosen() -> None:
    for query in QUERIES:
        selected = re.findall(r"(?:onceward|process)_\w+(?:\{[^}]*\})?", query)
        assert selected
        assert [one for one in selected if not one.endswith('job=~"$job"}')] == []


def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    queries = [
        {"record": f"board:{number}", "expr": filled(one)} for number, one in enumerate(QUERIES)
    ]
    boards = tmp_path / "boards.yml"  # JSON is YAML
    boards.write_text(json.dumps({"groups": [{"name": "boards", "rules": queries}]}))
    assert objections("check", "rules", str(boards)) == ""


def test_prometheus_accepts_the_configuration_of_the_page_and_its_rules(tmp_path: Path) -> None:
    shown = examples("yaml")["docs/how-to/running.md 1"]
    ours = re.sub(r"/opt/onceward/venv/share/onceward(?=/prometheus/)", str(CONFIG), shown)
    assert ours != shown
    written = tmp_path / "prometheus.yml"
    written.write_text(ours)
    assert objections("check", "config", str(written)) == ""
