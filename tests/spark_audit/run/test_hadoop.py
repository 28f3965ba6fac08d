"""A day whose output lies where Hadoop leads."""

from __future__ import annotations

import pytest

from feedback.errors import ExitCode
from spark_audit.location import output_of
from spark_audit.places import Places
from spark_audit.pruning import prune
from spark_audit.run import audit_with
from spark_audit.run_lock import alone
from spark_audit.verdict import parse_fail_on
from spark_audit.window import Window
from tests.spark_audit.hadoop import mounted
from tests.spark_audit.run.scene import IDS, LOST, WINDOW, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]


def test_a_pruned_day_keeps_its_verdict_and_the_next_run_goes_on(scene: Scene) -> None:
    setting = mounted(scene.spark, scene.output)
    settings = scene.settings()
    audit = settings.audit.model_copy(update={"output": setting})
    settings = settings.model_copy(update={"audit": audit})
    output = output_of(setting, scene.spark)
    days = [Window(f"2020-01-0{one}", BEGIN_MS, BEGIN_MS + one * DAY_MS) for one in (1, 2, 3)]
    with alone(output):
        for day in days[:2]:
            audit_with(scene.spark, settings, day, ())
        (pruned,) = prune(output, before=days[1].date)
        assert pruned.date == days[0].date
        assert Places(output, pruned.date).summary.is_file()
        assert audit_with(scene.spark, settings, days[2], ()).before == ()
        assert prune(output, before=days[1].date) == []


def test_a_day_is_read_and_judged_and_judged_again_from_its_snapshot(scene: Scene) -> None:
    setting = mounted(scene.spark, scene.output)
    settings = scene.settings()
    audit = settings.audit.model_copy(update={"output": setting})
    settings = settings.model_copy(update={"audit": audit})
    output = output_of(setting, scene.spark)
    said = []
    for _ in range(2):
        with alone(output):
            outcome = audit_with(scene.spark, settings, WINDOW, parse_fail_on("lost>0"))
        assert outcome.exit_code is ExitCode.BAD_ANSWER
        assert outcome.summary["counts"]["requests"] == len(IDS)
        said.append(outcome.summary["counts"])
    assert said[0] == said[1]
    assert str(outcome.page) == f"{setting}/reports/date={DATE}/run=2/report.html"
    runs = {
        one.parent.parent.name: one.name
        for one in scene.output.glob("*/date=*/*")
        if one.name.startswith("run=")
    }
    again = dict.fromkeys(("sifted", "judged", "findings", "reports"), "run=2")
    assert runs == {"snapshot": "run=1", **again}
    (file,) = scene.output.glob("findings/*/*/kind=*/*.parquet")
    assert [row["request_id"] for row in scene.spark.read.parquet(str(file)).collect()] == [LOST]
    assert not (scene.output / ".lock").exists()
