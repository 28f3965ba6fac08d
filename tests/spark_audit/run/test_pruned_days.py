"""Days that were pruned still hold the chain together: each offset is judged once."""

from __future__ import annotations

import pytest

from feedback.errors import NotAvailable
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.day_pruning import prune
from tests.spark_audit.run.scene import WINDOW, Scene
from tests.spark_audit.run.test_chain import NOON, SQLITE_ONLY, _lose, _today
from tests.spark_audit.stage.samples import DATE

pytestmark = pytest.mark.timeout(600)


# Four whole audits.
@pytest.mark.long
@SQLITE_ONLY
def test_a_pruned_day_keeps_its_offsets_and_is_read_again_only_when_that_is_asked_for(
    scene: Scene,
) -> None:
    first = scene.audit()
    _lose(scene, {"late": NOON})
    today = _today()
    scene.audit(window=today)
    with alone(scene.output):
        (pruned,) = prune(scene.output, before=today.date)
    assert (pruned.date, pruned.bytes > 0) == (DATE, True)
    verdict = DayPaths(scene.output, DATE).summary.read_bytes()
    with pytest.raises(NotAvailable, match=r"was pruned: .*--again reads the day again"):
        scene.audit(window=WINDOW)
    assert DayPaths(scene.output, DATE).summary.read_bytes() == verdict
    again = scene.audit(again=True)
    assert again.summary["unseen"] == []
    assert again.summary["offsets"] == first.summary["offsets"]
