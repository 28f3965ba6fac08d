"""Two people act on the same in two browsers, while the group's only worker is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from feedback.settings.settings import load
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import with_people
from tests.consumer.console.test_in_browser import OnCall, on_call
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.waits, pytest.mark.timeout(400)]

LETTERS = 3


def test_one_of_two_acts_the_other_is_told_and_the_dead_worker_is_seen(
    make_box: MakeBox, opened: Open, tmp_path: Path
) -> None:
    box = make_box("work", "failing")
    stage = box.stage
    worker = stage.start()
    failed = [
        stage.client.send({"n": n}, topic=stage.topics["failing"]).request_id
        for n in range(LETTERS)
    ]
    doubt = stage.client.send({"do": "doubt"}, topic=stage.topics["work"]).request_id
    box.closed(failed)
    stage.final(doubt)
    held = stage.client.send({"gate": stage.gate().path}, topic=stage.topics["work"]).request_id
    eventually(lambda: stage.runs(held), what="a run that is held")
    console = opened(with_people(load(stage.config()), tmp_path))
    address = str(console.base_url).rstrip("/")
    with on_call(address, "olga") as olga, on_call(address, "otto") as otto:
        # Both look at the same, and decide otherwise.
        for one, happened in ((olga, "yes"), (otto, "no")):
            one.opens(f"/request?id={doubt}")
            _fills_in(one, doubt, happened)
        worker.kill()
        olga.clicks_on("End the doubt")
        olga.reads("SUCCEEDED")
        otto.clicks_on("End the doubt")
        otto.reads("olga has resolved it")

        for one in (olga, otto):
            one.opens("/choose/redrive?all=yes")
            one.reads(f"{LETTERS} dead letters would be sent back")
            one.types("because", "the bank is back")
        olga.clicks_on(f"Send back {LETTERS} dead letters")
        olga.reads(f"{LETTERS} of {LETTERS} chosen")
        otto.clicks_on(f"Send back {LETTERS} dead letters")
        otto.reads(f"{LETTERS} then, 0 now")

        # The page is kept up to date: nobody opens it again.
        otto.opens("/")
        otto.reads("no worker is alive")
        otto.opens("/workers")
        otto.reads("dead", "1 claim")
    assert len(stage.runs(held)) == 1


def _fills_in(person: OnCall, doubt: str, happened: str) -> None:
    person.chooses(happened)
    person.types("because", f"the bank says {happened}")
    person.types("last", doubt[-4:])
