"""Front doors that are killed before a real worker: each key is one run, and each has an end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.consumer.stage import Stage, open_stage
from tests.kit.settings import environment
from tests.producer_client.resenders import ClientProgram
from tests.stack import Servers

LIMIT_S = 60
KEYS = [f"order-{number}" for number in range(40)]

pytestmark = pytest.mark.waits


@pytest.fixture
def stage(servers: Servers, sqlite_url: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield the servers of one group, with a worker."""
    with open_stage(servers=servers, journal_url=sqlite_url, folder=tmp_path) as one:
        one.start()
        yield one


def _door(stage: Stage, folder: Path, name: str) -> ClientProgram:
    section = {"topics": list(stage.topics.values()), "port": 0}
    config = str(stage.config(http=section))
    return ClientProgram(environment(), folder, name, argv=("serve", "--config", config))


def test_a_payment_that_is_posted_again_and_again_while_doors_are_killed_is_made_once(
    stage: Stage, tmp_path: Path
) -> None:
    doors = [_door(stage, tmp_path, name) for name in "abc"]
    bases = [f"http://127.0.0.1:{one.told('http.started')['port']}" for one in doors]
    topic = stage.topics["work"]

    def pay(key: str) -> httpx.Response:
        """Press until it is accepted, at any door, and then once more; return the outcome."""
        draw = random.Random(key)
        with httpx.Client(timeout=LIMIT_S) as browser:
            while True:
                headers = {"Idempotency-Key": f'"{key}"', "Prefer": "wait=20"}
                with suppress(httpx.TransportError):
                    url = f"{draw.choice(bases)}/v1/{topic}"
                    answer = browser.post(url, json={"answer": key}, headers=headers)
                    if answer.status_code == 200:
                        return answer

    try:
        with ThreadPoolExecutor(16) as browsers:
            # Each tab twice: a double click.
            paid = [browsers.submit(pay, key) for key in KEYS * 2]
            for one in doors[:2]:
                paid[10].result()
                one.kill()
            answers = [one.result().json() for one in paid]
    finally:
        for one in doors:
            one.kill()
    assert [one["result"] for one in answers] == KEYS * 2
    assert {one["state"] for one in answers} == {"SUCCEEDED"}
    assert len(stage.runs()) == len({run["request_id"] for run in stage.runs()}) == len(KEYS)
