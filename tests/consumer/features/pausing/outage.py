"""A counterparty that is down for a while under load, with the guard as it is by default.

`python -m tests.stack -- python -m tests.consumer.features.pausing.outage` takes it down for 60 s
and prints the figures; the tests do so for a few seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.consumer.features.pausing.scene import CALLING, Scene
from tests.consumer.stage import HANDLERS, open_stage
from tests.eventually import eventually
from tests.kit.load import Load
from tests.stack import Stack
from tests.stack.postgres import fresh_database

# Two processes of eight slots each, and everything else as it comes.
WORKER = {
    "handlers": [HANDLERS, CALLING],
    "processes": 2,
    "slots_per_process": 8,
    "outage_share": 0.9,
}
TOPICS = ("calling", "other")
RATE = 100.0
OTHER_EVERY = 5
BEFORE_S = 2.0
END_LIMIT_S = 60.0


@dataclass(frozen=True)
class Figures:
    """What an outage has cost.

    Attributes:
        down_s: how long the counterparty refused everything.
        dead_letters: requests that failed for good.
        paused_after_s: from its going to the pause.
        resumed_after_s: from its coming back to the end of the pause.
        ran_twice: requests with more than one run.
        unfinished: requests without an end afterwards.
        other_max_s: the longest that a request of another topic took meanwhile.
    """

    down_s: float
    requests: int
    succeeded: int
    dead_letters: int
    paused_after_s: float
    resumed_after_s: float
    ran_twice: int
    unfinished: int
    others: int
    other_failed: int
    other_max_s: float


class TwoTopics(Load):
    """Sends to both topics at a steady rate, until the block ends.

    Attributes:
        sent: request ids of each handler, with the time (s) at which they were sent.
    """

    def __init__(self, scene: Scene, rate: float) -> None:
        super().__init__(self._send_both, rate_per_s=rate)
        self._scene = scene
        self.sent: dict[str, dict[str, float]] = {"calling": {}, "other": {}}

    def _send_both(self, number: int) -> None:
        self._send("calling", takes_s=0.02)
        if number % OTHER_EVERY == 0:
            self._send("other", answer=1)

    def _send(self, handler: str, **body: Any) -> None:
        at_s = time.time()
        (name,) = self._scene.send(handler, **body)
        self.sent[handler][name] = at_s


def measure(scene: Scene, *, down_s: float, rate: float = RATE) -> Figures:
    """Take the counterparty down for `down_s` seconds under load and return what that cost."""
    worker = scene.start()
    with TwoTopics(scene, rate) as load:
        eventually(lambda: scene.count("calling", "SUCCEEDED") > BEFORE_S * rate, timeout_s=30)
        scene.goes_down()
        down_at = time.time()
        eventually(lambda: time.time() - down_at >= down_s, timeout_s=down_s + 10)
        scene.is_back()
        back_at = time.time()
        scene.seen_by(worker, "guard.resumed", "calling")
    # Clients resend what was given up meanwhile.
    for names in load.sent.values():
        for name in names:
            scene.stage.client.wait(name, timeout_s=END_LIMIT_S)
    states = Counter(scene.rows().values())
    others = scene.stage.execute(
        "SELECT request_id, state, finished_at FROM onceward_request "
        f"WHERE topic = '{scene.stage.topics['other']}'"
    )
    runs = Counter(str(run["request_id"]) for run in scene.stage.runs())
    paused = worker.events("guard.paused")
    return Figures(
        down_s=down_s,
        requests=len(load.sent["calling"]),
        succeeded=states["SUCCEEDED"],
        dead_letters=states["FAILED"],
        paused_after_s=round(_at(paused[0]) - down_at, 2),
        resumed_after_s=round(_at(worker.events("guard.resumed")[-1]) - back_at, 2),
        ran_twice=sum(count > 1 for count in runs.values()),
        unfinished=len(load.sent["calling"]) - states["SUCCEEDED"] - states["FAILED"],
        others=len(load.sent["other"]),
        other_failed=sum(state != "SUCCEEDED" for _, state, _ in others),
        other_max_s=round(
            max(at / 1000 - load.sent["other"][str(name)] for name, _, at in others), 2
        ),
    )


def _at(event: dict[str, str]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure it by the command line and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=RATE, help="a second; default: %(default)s")
    parser.add_argument("--postgres", action="store_true", help="the journal in PostgreSQL")
    asked = parser.parse_args(arguments)
    with ExitStack() as ends:
        servers = ends.enter_context(Stack.start())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{folder}/journal.db"
        if asked.postgres:
            url = ends.enter_context(fresh_database(servers.postgres, f"test_{uuid.uuid4().hex}"))
        given = {"handlers": TOPICS, "worker": WORKER}
        stage = ends.enter_context(
            open_stage(servers=servers, journal_url=url, folder=folder, **given)
        )
        found = measure(Scene(stage, folder), down_s=asked.seconds, rate=asked.rate)
    print(json.dumps(asdict(found), indent=2))


if __name__ == "__main__":
    main()
