"""Days on which all went well are good: whenever they are audited, and how often."""

from datetime import UTC, datetime, timedelta

import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.spark_audit.days.conftest import Audit
from tests.spark_audit.days.judged import Judged

# Beside the limit of one test: a session of Spark, a worker, and three runs.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_an_honest_day_is_good_before_it_is_over_and_so_is_an_empty_one(
    make_box: MakeBox, audit: Audit
) -> None:
    stage = make_box("work").stage
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    worker = stage.start()
    for _ in range(3):
        assert stage.client.send({}, topic=stage.topics["work"]).wait(30).state is State.SUCCEEDED
    assert worker.stop() == 0
    assert audit(stage) == _good(3)
    # It had no requests, and those of today are not its own.
    assert audit(stage, yesterday) == _good(0)
    # Its deadline is an hour away, and no worker is there.
    stage.client.send({}, topic=stage.topics["work"])
    assert audit(stage) == _good(4, pending=1)


def _good(requests: int, *, pending: int = 0) -> Judged:
    return Judged(ExitCode.FINE, requests, pending, {})
