"""A dead worker's claims in their effect are no doubts yet: the lists of doubts name them."""

import json

from consumer.dlq.doubts_list import unswept_lines
from consumer.journal.doubts import UnsweptClaims, UnsweptFound
from feedback.errors import ExitCode
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually


def test_a_dead_workers_effects_are_named_until_a_sweep_makes_them_doubts(
    make_box: MakeBox, dlq: Dlq
) -> None:
    stage = make_box("marked").stage
    # Its lease is over when the test says so.
    worker = stage.start(journal={"lease_s": 600, "wait_s": 1200})
    gate = stage.gate()
    name = stage.client.send({"gate": gate.path}, topic=stage.topics["marked"]).request_id
    eventually(lambda: stage.runs(name, at="effect"), timeout_s=60)
    config = stage.config()
    running = dlq(config, "list", "--state", "in_doubt").stdout
    assert "0 open doubts" in running and "may become" not in running
    worker.kill()
    lease = 'UPDATE onceward_worker SET lease_until = 1 WHERE "group" = '
    stage.execute(f"{lease}'{stage.group}'")

    for command in (["list", "--state", "in_doubt"], ["list"]):
        done = dlq(config, *command)
        assert done.code == ExitCode.FINE, done.stderr
        assert "1 request more may become doubts; no worker is alive" in done.stdout, command
        (line,) = (one for one in done.stdout.splitlines() if "which is dead" in one)
        assert line.strip().startswith(stage.row(name)["owner"])  # type: ignore[index]
        last = json.loads(dlq(config, *command, "--json").stdout.splitlines()[-1])["summary"]
        (unswept,) = last["unswept"]
        assert (unswept["requests"], last["living_workers"]) == (1, 0)
        assert unswept["since"] == stage.row(name)["effect_at"]  # type: ignore[index]

    for state in (["--state", "in_doubt"], []):
        said = dlq(config, "export", "-", *state).stderr
        assert "1 request more may become doubts" in said and "which is dead" in said, state

    stage.start()
    stage.final(name)
    page = dlq(config, "list", "--state", "in_doubt").stdout
    assert "1 open doubt," in page and "may become" not in page


def test_whoever_settles_them_is_said() -> None:
    found = UnsweptFound([UnsweptClaims("w\x1b1", 2, 5)], living=1)
    first, second = unswept_lines(found)
    assert first.startswith("2 requests more may become doubts; a sweep settles each")
    assert "\x1b" not in second and "1970-01-01 00:00:00Z" in second
    assert list(unswept_lines(UnsweptFound([], living=0))) == []
