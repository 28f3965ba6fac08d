"""What an outage costs with the guard as it is by default; `outage` measures a longer one."""

from __future__ import annotations

import pytest

from tests.consumer.features.pausing.conftest import MakeScene
from tests.consumer.features.pausing.outage import TOPICS, WORKER, measure
from tests.standstill import standing_still

pytestmark = pytest.mark.waits


@pytest.mark.long
def test_an_outage_costs_few_dead_letters_and_ends_by_itself(make_scene: MakeScene) -> None:
    with standing_still() as stood:
        figures = measure(make_scene(*TOPICS, worker=WORKER), down_s=12)
    # 36 do not trip it; what runs then, and what was claimed in the same turn, and the probes.
    assert 37 <= figures.dead_letters <= 36 + 2 * 16 + 5, figures
    assert figures.resumed_after_s < 5 + stood.total_s, figures
    assert figures.succeeded == figures.requests - figures.dead_letters, figures
    assert (figures.ran_twice, figures.unfinished, figures.other_failed) == (0, 0, 0), figures
    assert figures.other_max_s < 5 + stood.total_s, figures
