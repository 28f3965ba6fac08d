"""Alert rules and dashboard: Prometheus reads them, and each names metrics that a worker has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from consumer.ops.health.doubts import OpenDoubts
from consumer.ops.health.exposed import ExposedMetrics
from consumer.ops.health.gauges import Gauges
from onceward.servers.packages import install_missing, program
from tests.consumer.ops.health.samples import vitals

CONFIG = Path(__file__).parents[2] / "config"
RULES = CONFIG / "prometheus" / "onceward-alerts.yml"
BOARD: dict[str, Any] = json.loads((CONFIG / "grafana" / "onceward.json").read_text())
QUERIES = [one["expr"] for panel in BOARD["panels"] for one in panel["targets"]]
# Figures of a whole group that several workers may show at once.
SHARED = ("onceward_doubts_", "onceward_dead_letters_waiting", "onceward_dead_letters_oldest")
COMMAND_LIMIT_S = 60.0


@pytest.fixture(scope="module")
def promtool() -> str:
    """Return the path of promtool, installed where it is missing."""
    install_missing(["promtool"])
    return program("promtool")


def known() -> set[str]:
    """Return the names of all series of a worker, histograms by their parts."""
    metrics = ExposedMetrics()
    seen = vitals(doubts=(OpenDoubts("pay", 1, 1.0),), lag={"pay": 1})
    metrics.registry.register(
        Gauges(look=lambda: seen, oldest=lambda: None, lateness=dict, stalled=dict)
    )
    names = set()
    for family in metrics.registry.collect():
        ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}
        names |= {family.name + end for end in ends.get(family.type, ("",))}
    return names


def test_every_metric_in_rules_and_dashboard_is_one_of_a_worker() -> None:
    named = set(re.findall(r"onceward_\w+", " ".join([RULES.read_text(), *QUERIES])))
    assert len(named) > 15
    assert named - known() == set()


def test_figures_of_a_whole_group_are_taken_by_max() -> None:
    rules = re.findall(r"expr: (.+)", RULES.read_text())
    for expression in [*rules, *QUERIES]:
        if any(name in expression for name in SHARED):
            assert expression.startswith("max by (topic) ("), expression


def test_the_panels_have_places_and_numbers_of_their_own() -> None:
    panels = BOARD["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    assert len({(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}) == len(panels)


def test_prometheus_accepts_the_rules_and_every_query(promtool: str, tmp_path: Path) -> None:
    queries = {
        "groups": [
            {
                "name": "board",
                "rules": [
                    {"record": f"board:{number}", "expr": _filled(one)}
                    for number, one in enumerate(QUERIES)
                ],
            }
        ]
    }
    board = tmp_path / "board.yml"
    board.write_text(json.dumps(queries))  # JSON is YAML
    ran = subprocess.run(
        (promtool, "check", "rules", str(RULES), str(board)),
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr


def _filled(query: str) -> str:
    return query.replace("$__rate_interval", "5m").replace("$job", ".*")
