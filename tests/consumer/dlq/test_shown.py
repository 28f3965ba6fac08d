"""`onceward-dlq show` of requests that have no letter, in whatever state they are."""

import json
import shlex
from contextlib import closing

from consumer.journal.pauses import Pauses
from feedback.errors import ExitCode
from feedback.settings.settings import load
from feedback.status import State
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.test_commands import assert_harmless, lines
from tests.consumer.features.dead_letters.conftest import MakeBox


def test_a_request_is_shown_from_its_sending_to_its_end(make_box: MakeBox, dlq: Dlq) -> None:
    # Its worker lives while it is shown, also where it stands still for a moment.
    lives = {"journal": {"lease_s": 60, "wait_s": 120}, "redis": {"heartbeat_ttl_s": 60}}
    stage = make_box("work", **lives).stage
    topic, config = stage.topics["work"], stage.config()
    gate = stage.gate()
    value = {"gate": gate.path, "answer": 1}
    name = stage.client.send(value, topic=topic, key="card-1").request_id

    (pending,) = lines(dlq(config, "show", name, "--json", "--value"))
    assert (pending["row"], pending["status"]["state"]) == (None, "PENDING")
    assert (pending["topic"], pending["key"], pending["holder"]) == (topic, "card-1", None)
    assert json.loads(pending["value"]) == value and pending["idempotency_keys"] == []
    assert [one["kind"] for one in pending["timeline"]] == ["id made", "sent", "deadline"]
    with closing(Pauses.from_settings(load(config))) as pauses:
        pauses.pause(topic, reason="the bank moves", by="ann@host")
        done = dlq(config, "show", name)
        assert done.code == ExitCode.FINE and gate.path not in done.stdout
        assert "the bank moves" in done.stdout
        since = next(str(one.since) for one in pauses.paused() if one.topic == topic)
        words = ("onceward-worker", "resume", "--since", since, "--config", str(config), topic)
        resume = shlex.join(words)
        assert resume in done.stdout.splitlines()
        pauses.resume(topic, by="ann@host")

    worker = stage.start()
    stage.seen(name, State.RUNNING)
    (running,) = lines(dlq(config, "show", name, "--json"))
    assert "value" not in running and running["paused"] is None
    assert (running["row"]["state"], running["holder"]["lives"]) == ("CLAIMED", True)
    assert running["holder"]["is_leased"] and running["holder"]["beats"]
    (key,) = running["idempotency_keys"]
    assert key in dlq(config, "show", name).stdout
    assert "claimed" in [one["kind"] for one in running["timeline"]]
    assert "wait --no-resend" in running["next"][0]["command"]

    gate.open()
    stage.final(name)
    assert worker.stop() == 0
    (ended,) = lines(dlq(config, "show", name, "--json"))
    assert ended["row"]["state"] == "SUCCEEDED" and ended["holder"] is None
    kinds = [one["kind"] for one in ended["timeline"]]
    assert kinds == ["id made", "claimed", "effect entered", "ended", "told"]
    assert ended["next"] == []
    assert_harmless(dlq(config, "show", name).stdout)
