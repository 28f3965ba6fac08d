"""The figure: always failing through tiers of 1 s twice and 5 s twice, then a dead letter."""

from __future__ import annotations

import itertools

import pytest

from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.consumer.features.dead_letters.box import Box, header
from tests.stack import Servers

MODULE = "tests.consumer.features.retries.retried_handlers"
TIERS_MS = (1000, 1000, 5000, 5000)


class Case:
    """One group with its worker, and a request that always fails."""

    def __init__(self, box: Box) -> None:
        self.box, self.stage = box, box.stage
        self.stage.start()
        self.name = self.send(fails=99)

    def send(self, **body: int) -> str:
        """Send a request and return its id."""
        topic = self.stage.topics["figure"]
        return str(self.stage.client.send(body, topic=topic).request_id)

    def sees_another_sweep(self) -> str:
        """Return the id of a request that failed for good later, once its letter is written.

        Whoever wrote it went through all that waits: a second letter of the first would be there.
        """
        later = self.send(rejects=1)
        self.box.closed([later])
        return later


@pytest.mark.long
def test_it_runs_five_times_and_leaves_one_dead_letter(
    make_stage: MakeStage, servers: Servers, postgres_url: str
) -> None:
    facts = {"handlers": ("figure",), "worker": {"handlers": [MODULE]}}
    stages = [make_stage(**facts), make_stage(journal_url=postgres_url, **facts)]
    cases = [Case(Box(stage, servers.kafka)) for stage in stages]
    for case in cases:
        stage, name = case.stage, case.name
        status = stage.final(name, timeout_s=40)
        assert (status.state, status.code, status.resend) == (State.FAILED, "HANDLER_ERROR", False)
        case.box.closed([name])
        later = case.sees_another_sweep()
        assert [run["generation"] for run in stage.runs(name)] == [1, 2, 3, 4, 5]
        row, history = stage.row(name), stage.history(name)
        assert row is not None
        runs = [*history, row]
        assert [run["generation"] for run in runs] == [1, 2, 3, 4, 5]
        assert [run["outcome"] for run in history] == ["RETRYING"] * 4
        assert (row["state"], row["attempt"]) == ("FAILED", 1)
        pauses_ms = [
            after["claimed_at"] - before["ended_at"] for before, after in itertools.pairwise(runs)
        ]
        assert all(
            pause_ms >= tier_ms for pause_ms, tier_ms in zip(pauses_ms, TIERS_MS, strict=True)
        ), pauses_ms
        assert case.box.counted("figure") == {name: 1, later: 1}
        assert header(case.box.letter(name, "figure"), "DLQ_ATTEMPTS") == "5"
