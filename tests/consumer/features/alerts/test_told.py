"""A real worker tells the owner of a topic, and works on when nobody listens."""

from collections.abc import Mapping
from typing import Any

import pytest

from feedback.status import State
from tests.consumer.features.dead_letters.conftest import FAILING, MakeBox, make_box
from tests.consumer.stage import HANDLERS
from tests.kit.webhook import SECRET, Hook

__all__ = ["make_box"]

WORKER: Mapping[str, Any] = {"handlers": [HANDLERS, FAILING], "outage_share": 0}


def test_the_first_failure_and_too_many_are_told_with_the_command_for_this_settings_file(
    make_box: MakeBox, hook: Hook
) -> None:
    box = make_box("refusing", worker=WORKER, alerts={"webhook_url": hook.url})
    stage = box.stage
    config = stage.config(alerts={"rate_per_minute": 5, "every_s": 1})
    worker = stage.launch(config)
    sent = [stage.produce(b"secret-payload", handler="refusing") for _ in range(20)]
    (first, *_) = hook.of_kind("first")
    (rate, *_) = hook.of_kind("rate")
    topic = stage.topics["refusing"]
    for told in (first, rate):
        assert (told["topic"], {*told["codes"]}) == (topic, {"CARD_EXPIRED"})
        assert {*told["request_ids"]} <= {one.coordinates_id for one in sent}
        command = f"onceward-dlq list --topic {topic} --code CARD_EXPIRED --config {config}"
        assert told["command"] == command
    assert rate["per_minute"] > 5
    assert all(body["onceward"]["group"] == stage.group for body in hook.posted)
    assert "secret-payload" not in str(hook.posted)
    assert worker.stop() == 0
    assert SECRET not in worker.stderr


def test_a_topic_whose_letters_cannot_be_written_and_one_that_waits_for_long_are_told(
    make_box: MakeBox, hook: Hook
) -> None:
    worker = {**WORKER, "create_topics": False}
    box = make_box("refusing", worker=worker, alerts={"webhook_url": hook.url, "age_s": 1})
    box.stage.start()
    box.stage.produce(b"{}", handler="refusing")
    (hindered, *_) = hook.of_kind("hindered")
    assert f"topic {box.name('refusing')} does not exist" in hindered["detail"]
    (age, *_) = hook.of_kind("age")
    assert (age["topic"], age["count"]) == (box.stage.topics["refusing"], 1)
    assert age["oldest_s"] >= 1


@pytest.mark.parametrize("url", ["hangs", "http://127.0.0.1:1/nobody"])
def test_a_webhook_that_hangs_or_is_away_costs_no_request_and_no_end_anything(
    make_box: MakeBox, hook: Hook, url: str
) -> None:
    hook.hangs = True
    address = hook.url if url == "hangs" else url
    box = make_box("work", "refusing", worker=WORKER, alerts={"webhook_url": address})
    worker = box.stage.start()
    failed = [box.stage.produce(b"{}", handler="refusing").coordinates_id for _ in range(5)]
    box.closed(failed)
    if url != "hangs":
        worker.told("webhook.failed")
    good = [box.stage.client.send({"answer": 1}, topic=box.stage.topics["work"]) for _ in range(20)]
    assert [one.wait(60).state for one in good] == [State.SUCCEEDED] * 20
    assert worker.stop() == 0
