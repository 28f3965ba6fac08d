"""A dashboard in the form of Grafana, by its own SDK."""

from __future__ import annotations

import re
from pathlib import Path

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    VariableOption,
    VariableRefresh,
)

from docs.dashboards.tables import Board, Panel

FOLDER = Path(__file__).parents[2] / "config" / "grafana"
_TAG = "onceward"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 12, 8
_METRIC = re.compile(r"\b((?:onceward|process)_\w+)(?:\{([^}]*)\})?")


def dashboard(board: Board) -> str:
    """Return the file of a dashboard."""
    made = (
        build.Dashboard(f"Onceward: {board.name}")
        .uid(f"onceward-{board.name}")
        .tags([_TAG])
        .refresh("30s")
        .time(board.since, "now")
        .link(build.DashboardLink("Onceward").type(DashboardLinkType.DASHBOARDS).tags([_TAG]))
        .with_variable(
            build.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(_job(board.key))
    )
    for place, panel in enumerate(board.panels):
        made.with_panel(_panel(place, panel))
    return JSONEncoder(sort_keys=True, indent=1).encode(made.build()) + "\n"


def of_the_job(expression: str) -> str:
    """Return a query of the jobs that are chosen.

    >>> of_the_job('max(onceward_slots) / rate(onceward_requests_total{state="LOST"}[5m])')
    'max(onceward_slots{job=~"$job"}) / rate(onceward_requests_total{state="LOST",job=~"$job"}[5m])'
    """
    chosen = 'job=~"$job"'
    return _METRIC.sub(
        lambda found: f"{found[1]}{{{','.join(filter(None, (found[2], chosen)))}}}", expression
    )


def _job(key: str) -> build.QueryVariable:
    return (
        build.QueryVariable("job")
        .label("job")
        .datasource(_SOURCE)
        .query(f"label_values({key}, job)")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .multi(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(place: int, panel: Panel) -> stat.Panel | timeseries.Panel:
    made = timeseries.Panel() if panel.form == "curve" else _figure(panel.form)
    x, y = place % 2 * _WIDTH, place // 2 * _HEIGHT
    made.id(place + 1).title(panel.title).unit(panel.unit).datasource(_SOURCE)
    made.grid_pos(GridPos(x=x, y=y, w=_WIDTH, h=_HEIGHT))
    for letter, query in zip("ABC", panel.queries, strict=False):
        asked = prometheus.Dataquery().ref_id(letter).legend_format(query.legend)
        asked.expr(of_the_job(query.expression))
        # A figure is of now: else a verdict of last week stands beside today's.
        made.with_target(asked.range() if panel.form == "curve" else asked.instant())
    return made


def _figure(form: str) -> stat.Panel:
    text = BigValueTextMode.NAME if form == "name" else BigValueTextMode.VALUE_AND_NAME
    return stat.Panel().text_mode(text).reduce_options(common.ReduceDataOptions().calcs(["last"]))
