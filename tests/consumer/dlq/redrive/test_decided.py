"""What a person decides about a doubt or a failure, from the command to the client."""

from __future__ import annotations

import json
import os
import pty
import shlex
import threading

import pytest

from feedback.status import State
from tests.consumer.dlq.redrive.conftest import MakeScene
from tests.consumer.dlq.redrive.scene import Scene
from tests.eventually import eventually


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    """Return a scene whose worker runs."""
    made = make_scene()
    made.stage.start()
    return made


def doubt(scene: Scene) -> str:
    topic = scene.stage.topics["doubtful"]
    sent = scene.stage.client.send({"amount": 5}, topic=topic)
    assert sent.wait(60).state is State.IN_DOUBT
    return sent.request_id


def test_a_waiting_client_sees_a_doubt_resolved(running: Scene) -> None:
    request_id = doubt(running)
    other = running.dlq("resolve", request_id, "--failed", "--run", "2", "--reason", "x", code=1)
    assert "is in doubt by run 1 now" in other.stdout
    events = running.stage.client.store.redis.pubsub()  # type: ignore[no-untyped-call]
    events.subscribe(running.stage.client.store.events_channel(request_id))
    (command, *_) = (one["command"] for one in running.said("show", request_id)["next"])
    assert "resolve --succeeded --run 1 " in command
    how = ("--succeeded", "--result", '{"receipt": 7}', "--reason", "the list", "--by", "zoe")
    said = running.said("resolve", request_id, *how, "--run", "1")
    assert (said["resolved"], said["status"], said["told"]) == (True, "SUCCEEDED", True)
    heard = [events.get_message(timeout=60)["data"] for _ in range(2)]
    assert heard[-1] == b"SUCCEEDED"
    events.close()
    status = running.stage.client.status(request_id)
    assert (status.state, status.result) == (State.SUCCEEDED, {"receipt": 7})
    row = running.stage.row(request_id)
    assert row is not None and row["published_at"] is not None
    assert [one["outcome"] for one in running.stage.history(request_id)] == ["IN_DOUBT"]
    (done,) = running.actions(request_id)
    assert (done["action"], done["by"], done["reason"]) == ("resolve", "zoe", "the list")
    again = running.said("resolve", request_id, "--failed", "--reason", "no", code=1)
    assert (again["resolved"], again["status"]) == (False, "SUCCEEDED")
    assert running.said("resolve", "nobody", "--failed", "--reason", "no", code=1)["status"] is None


def test_what_did_not_happen_gets_a_letter_and_can_be_sent_back(running: Scene) -> None:
    request_id = doubt(running)
    running.said("resolve", request_id, "--failed", "--code", "NOT_CHARGED", "--reason", "no such")
    failed = running.stage.client.status(request_id)
    assert (failed.state, failed.code, failed.message) == (State.FAILED, "NOT_CHARGED", "no such")
    running.box.closed([request_id])
    running.repair()
    assert running.said("redrive", request_id)["sent"] == 1
    assert running.stage.final(request_id).state is State.SUCCEEDED
    outcomes = [one["outcome"] for one in running.stage.history(request_id)]
    assert outcomes == ["IN_DOUBT", "FAILED"]


def test_with_redis_away_a_worker_tells_it_later(make_scene: MakeScene) -> None:
    scene = make_scene("doubtful")
    worker = scene.stage.start()
    request_id = doubt(scene)
    nowhere = scene.stage.config(redis={"url": "redis://127.0.0.1:1/0"})
    scene.config = nowhere
    said = scene.said("resolve", request_id, "--succeeded", "--reason", "the list")
    assert (said["resolved"], said["told"]) == (True, False)
    eventually(lambda: scene.stage.client.status(request_id).state is State.SUCCEEDED, timeout_s=30)
    assert worker.stop() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("resolve", "a", "--reason", "x"),
        ("discard", "a", "--reason", "x"),
        ("resolve", "a", "--succeeded"),
        ("resolve", "a", "--succeeded", "--reason", ""),
        ("resolve", "a", "--failed", "--reason", " "),
        ("discard", "a", "--because", ""),
        ("resolve", "a", "--failed", "--code", "no code", "--reason", "x"),
        ("resolve", "a", "--failed", "--code", "INVALID_MESSAGE", "--reason", "x"),
        ("resolve", "a", "--succeeded", "--result", "NaN", "--reason", "x"),
        ("discard", "a"),
        ("discard", "--because", "x"),
        ("discard", "a", "--because", "x", "--seen", "1.1"),
        ("discard", "a", "b", "--undo", "--because", "x", "--seen", "1.1"),
    ],
)
def test_what_makes_no_sense_changes_nothing(running: Scene, arguments: tuple[str, ...]) -> None:
    before = running.actions()
    assert running.dlq(*arguments, code=2).stderr
    assert running.actions() == before


def test_discarded_failures_are_kept_and_listed_no_more(scene: Scene) -> None:
    one, two, other = scene.fail({"amount": 1}, {"amount": 2}, {"amount": 3}, key="k")
    said = scene.said("discard", one, "--because", "a test", "--by", "zoe")
    assert (said["discarded"], said["refused"], said["requests"]) == (1, {}, {one: "taken"})
    assert scene.said("discard", one, "--because", "x", code=1)["refused"] == {"discarded": 1}
    assert scene.said("discard", "--id", two, "--because", "a test")["discarded"] == 1
    listed = scene.dlq("list", "--json").stdout.splitlines()
    ids = [found["request_id"] for found in map(json.loads, listed) if "request_id" in found]
    assert ids == [other]
    for request_id in (one, two):
        assert scene.stage.client.status(request_id).state is State.FAILED
        assert [found["action"] for found in scene.actions(request_id)] == ["discard"]
    assert scene.said("discard", "--reason", "BANK_CLOSED", "--because", "x")["discarded"] == 1
    assert scene.said("redrive", "--all")["refused"] == {"discarded": 3}


def test_only_what_has_failed_or_has_a_letter_can_be_discarded(scene: Scene) -> None:
    known, unknown = scene.fail({"amount": 1}, {"amount": 2})
    scene.stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{unknown}'")
    said = scene.said("discard", known, unknown, "nobody", "--because", "a test", code=1)
    assert (said["discarded"], said["refused"]) == (2, {})
    assert said["requests"] == {known: "taken", unknown: "taken", "nobody": "no_letter"}
    assert [one["request_id"] for one in scene.actions()] == [known, unknown]
    done = scene.dlq("discard", "nobody", "--because", "a test", code=1)
    assert "nobody: no dead letter is of it" in done.stdout
    assert len(scene.actions()) == 2


ASKING = [("redrive",), ("discard", "--because", "a test")]


def test_what_is_not_confirmed_is_not_done(scene: Scene) -> None:
    failed = scene.fail({"amount": 1}, {"amount": 2})
    for command in ASKING:
        _asked_in_vain(scene, command)
    said = scene.said("discard", "--reason", "BANK_CLOSED", "--because", "x", "--dry-run")
    assert (said["would_discard"], said["refused"]) == (len(failed), {})
    assert not scene.actions() and not scene.redrives()


def _asked_in_vain(scene: Scene, command: tuple[str, ...]) -> None:
    # Nobody is there to ask, or gives another answer than yes.
    done = scene.dlq(*command, "--reason", "BANK_CLOSED", code=1)
    answers = ("n\n", "\n", "\x04")
    answered = [at_a_terminal(scene, answer, *command, "--all") for answer in answers]
    for code, said in ((1, done.stdout + done.stderr), *answered):
        assert code == 1
        assert "it was not confirmed, so nothing was changed" in said
        assert "2 " in said
    assert not scene.actions() and not scene.redrives()


@pytest.mark.parametrize("command", ASKING)
def test_a_single_id_is_not_asked_about(running: Scene, command: tuple[str, ...]) -> None:
    (failed,) = running.fail({"amount": 1})
    before = len(running.actions())
    running.dlq(*command, failed, code=0)
    assert [one["request_id"] for one in running.actions()[before:]] == [failed]


def test_a_discard_is_undone_as_long_as_nothing_else_has_happened(running: Scene) -> None:
    failed, other, replaced = running.fail({"amount": 1}, {"amount": 2}, {"amount": 3})
    undo = ("--undo", "--because", "the wrong one")
    running.said("discard", failed, "--because", "a test")
    assert running.said("redrive", failed, code=1)["refused"] == {"discarded": 1}
    (shown,) = (one["command"] for one in running.said("show", failed)["next"])
    assert running.said("discard", failed, *undo)["requests"] == {failed: "undone"}
    # The command on an old screen names the discard that was there then.
    words = shlex.split(shown)
    seen = ("--seen", words[words.index("--seen") + 1])
    running.said("discard", failed, "--because", "refunded by hand", "--by", "otto")
    late = running.dlq("discard", failed, *undo, *seen, code=1).stdout
    assert "is not the one that stands now; since then" in late
    assert ", otto has discarded it at 20" in late and "(refunded by hand)" in late
    assert "has undone its discard at 20" in late
    assert running.said("discard", failed, *undo, *seen, code=1)["requests"] == {failed: "another"}
    mistyped = running.dlq("discard", failed, *undo, "--seen", "1.1", code=1).stdout
    assert "it has no discard 1.1" in mistyped and "since then" not in mistyped
    assert running.said("discard", failed, *undo)["requests"] == {failed: "undone"}
    assert running.said("discard", failed, *undo, code=1)["requests"] == {failed: "not_discarded"}
    assert running.said("discard", other, *undo, code=1)["requests"] == {other: "not_discarded"}
    running.repair()
    assert running.said("redrive", replaced, "--set", "amount=7")["sent"] == 1
    assert running.said("discard", replaced, *undo, code=1)["requests"] == {replaced: "replaced"}
    assert running.said("redrive", failed)["sent"] == 1
    done = [one["action"] for one in running.actions(failed)]
    assert done == ["discard", "undo", "discard", "undo", "redrive"]


def at_a_terminal(scene: Scene, answer: str, *arguments: str) -> tuple[int, str]:
    """Run the command and answer its question; return its exit code and all that it said."""
    ours, theirs = pty.openpty()
    try:
        started = scene.start(*arguments, stdin=theirs)
        os.write(ours, answer.encode())
        code, said, errors = started.ended()
        return code, said + errors
    finally:
        os.close(ours)
        os.close(theirs)


def test_of_a_redrive_and_a_clients_resend_at_once_one_runs(
    make_scene: MakeScene, journal_url: str
) -> None:
    # Neither takes over what the other runs, which may stand still for a moment.
    scene = make_scene(journal_url=journal_url, journal={"lease_s": 30, "wait_s": 60})
    stage = scene.stage
    stage.start()
    stage.start()
    failed = scene.fail(*({"amount": number} for number in range(20)))
    scene.repair()
    resending, over = threading.Event(), threading.Event()

    def resend() -> None:
        # A client that never heard of the failure: one attempt after the other.
        attempt = 2
        while not over.is_set():
            for request_id in failed:
                kept = {"amount": failed.index(request_id)}
                stage.produce(
                    json.dumps(kept, separators=(",", ":")).encode(),
                    headers=[
                        ("onceward-request-id", request_id.encode()),
                        ("onceward-attempt", b"%d" % attempt),
                    ],
                    handler="repairable",
                )
            resending.set()
            attempt += 1

    thread = threading.Thread(target=resend)
    thread.start()
    try:
        assert resending.wait(30)
        assert scene.said("redrive", "--all")["sent"] == len(failed)
    finally:
        over.set()
        thread.join(30)
    for request_id in failed:
        # A resend read before the redrive may be answered behind it, with the failure it found.
        stage.seen(request_id, State.SUCCEEDED)
    runs = [(run["request_id"], run["generation"]) for run in stage.runs()]
    assert sorted(runs) == sorted((one, number) for one in failed for number in (1, 2))
