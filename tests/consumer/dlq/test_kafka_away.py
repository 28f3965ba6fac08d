"""`show` while Kafka is away: the journal and Redis still say what they know."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import ExitCode
from onceward.servers.ports import HOST, free_port
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.features.dead_letters.conftest import MakeBox


def test_journal_and_redis_are_shown_without_the_letters(make_box: MakeBox, dlq: Dlq) -> None:
    box = make_box("work")
    stage = box.stage
    stage.start()
    rejected = stage.client.send({"do": "reject"}, topic=stage.topics["work"]).request_id
    box.closed([rejected])
    for worker in stage.workers:
        assert worker.stop() == 0
    away = stage.config(kafka={"bootstrap_servers": f"{HOST}:{free_port()}"})

    done = dlq(away, "show", rejected)
    assert done.code == ExitCode.FINE, done.stderr
    assert "its letters are not known: Kafka at" in done.stdout
    assert (
        "FAILED CARD_EXPIRED" in done.stdout and "dead letter is not there yet" not in done.stdout
    )
    assert f"onceward-dlq show --config {away} {rejected}" in done.stdout.splitlines()
    case: dict[str, Any] = json.loads(dlq(away, "show", rejected, "--json").stdout)
    assert (case["row"]["state"], case["status"]["state"]) == ("FAILED", "FAILED")
    assert case["letters"] == [] and case["letters_away"].startswith("Kafka at")
    here = json.loads(dlq(stage.config(), "show", rejected, "--json").stdout)
    assert here["letters_away"] is None and len(here["letters"]) == 1

    nobody = dlq(away, "show", "nobody")
    assert nobody.code == ExitCode.NOT_AVAILABLE
    assert "no row and no status" in nobody.stderr and "Kafka at" in nobody.stderr
    said = dlq(away, "show", "nobody", "--json")
    assert said.code == ExitCode.NOT_AVAILABLE and json.loads(said.stdout)["row"] is None


@pytest.mark.parametrize("more", [["--no-journal"], []], ids=["no-journal", "journal"])
def test_a_topic_that_is_not_there_is_still_an_error(
    make_box: MakeBox, dlq: Dlq, tmp_path: Path, more: list[str]
) -> None:
    config = make_box("work").stage.config()
    done = dlq(config, "show", "nobody", "--dlq", "no-such-topic", *more)
    assert done.code == ExitCode.NOT_AVAILABLE and "there is no topic" in done.stderr
