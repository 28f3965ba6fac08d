"""The rules and the queries of the dashboards, and promtool, which judges them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from docs.dashboards.boards import of_the_job
from docs.dashboards.tables import BOARDS
from onceward.servers.packages import program
from tests.kit.packages import install_missing

CONFIG = Path(__file__).parents[2] / "config"
RULES = CONFIG / "prometheus" / "onceward-alerts.yml"
QUERIES = [
    of_the_job(query.expression)
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]
COMMAND_LIMIT_S = 60.0


def filled(query: str) -> str:
    """Return a query with what Grafana puts in: the jobs, and a span of four scrapes and more."""
    return query.replace("$__rate_interval", "1m").replace("$job", ".*")


def objections(*words: str) -> str:
    """Return what promtool says against files; nothing when it takes them."""
    install_missing(["promtool"])
    ran = subprocess.run(
        (program("promtool"), *words), capture_output=True, text=True, timeout=COMMAND_LIMIT_S
    )
    return "" if ran.returncode == 0 else ran.stderr + ran.stdout
