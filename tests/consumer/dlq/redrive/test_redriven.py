"""Letters go back to where they came from, run once more, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feedback.status import State
from tests.consumer.dlq.redrive.conftest import MakeScene
from tests.consumer.dlq.redrive.scene import Scene
from tests.consumer.features.dead_letters.box import headers
from tests.eventually import eventually

SENT = b'{"amount":5}'


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    """Return a scene whose worker runs."""
    made = make_scene()
    made.stage.start()
    return made


def test_what_failed_is_sent_back_runs_once_and_its_client_sees_it_succeed(
    make_scene: MakeScene, journal_url: str
) -> None:
    scene = make_scene(journal_url=journal_url)
    stage = scene.stage
    stage.start()
    values = ({"amount": 5}, {"amount": "bad"})
    (failed, left) = scene.fail(*values, key="k", headers=(("tenant", b"7"),))
    before = stage.row(failed)
    scene.repair()
    said = scene.said("redrive", failed, "--by", "zoe", "--because", "it is open")
    assert (said["state"], said["sent"], said["refused"]) == ("done", 1, {})
    ended = stage.final(failed)
    assert (ended.state, ended.result, ended.attempt) == (State.SUCCEEDED, {"took": 5}, 2)
    row = stage.row(failed)
    assert before is not None and row is not None
    assert (row["generation"], row["attempt"], row["dead_letter_at"]) == (2, 2, None)
    assert row["deadline_at"] > before["deadline_at"]
    assert [one["outcome"] for one in stage.history(failed)] == ["FAILED"]
    assert [run["generation"] for run in stage.runs(failed)] == [1, 2]
    back = stage.runs(failed)[1]["headers"]
    assert back["tenant"] == "7"
    assert (back["DLQ_REDRIVE_COUNT"], back["DLQ_REDRIVE_BY"]) == ("1", "zoe")
    assert not any(name in back for name in ("DLQ_REASON", "DLQ_FAILED_AT", "DLQ_REQUEST_ID"))
    (letter,) = (headers(one) for one in scene.box.letters("repairable") if one.value == SENT)
    record = [one for one in scene.records(stage.topics["repairable"]) if one.key == b"k"][-1]
    assert (record.value, record.partition) == (SENT, row["partition"])
    assert headers(record)["ORIGINAL_OFFSET"] == letter["ORIGINAL_OFFSET"]
    (done,) = scene.actions(failed)
    assert (done["action"], done["by"], done["reason"]) == ("redrive", "zoe", "it is open")
    assert (done["redrive_id"], done["generation"]) == (said["redrive_id"], 1)
    assert len(stage.runs(left)) == 1


def test_what_fails_again_gets_a_new_letter_and_goes_round_only_so_often(scene: Scene) -> None:
    (failed,) = scene.fail({"amount": "bad"})
    scene.repair()
    for count in (1, 2, 3):
        assert scene.said("redrive", "--all")["sent"] == 1
        _wait_for_letters(scene, failed, count + 1)
    newest = max(
        (headers(one) for one in scene.box.letters("repairable")),
        key=lambda one: int(one["DLQ_ATTEMPTS"]),
    )
    assert (newest["DLQ_REDRIVE_COUNT"], newest["DLQ_ATTEMPTS"]) == ("3", "4")
    said = scene.said("redrive", failed, code=1)
    assert (said["sent"], said["refused"]) == (0, {"older_failure": 3, "too_often": 1})
    assert scene.said("redrive", failed, "--max-redrives", "4")["sent"] == 1


def _wait_for_letters(scene: Scene, request_id: str, count: int) -> None:
    eventually(lambda: scene.box.counted("repairable")[request_id] == count)


def _listed(scene: Scene) -> dict[str, str | None]:
    """Return the reasons of what `list` shows, by request."""
    lines = map(json.loads, scene.dlq("list", "--json").stdout.splitlines())
    return {one["request_id"]: one["reason"] for one in lines if "request_id" in one}


def test_what_is_refused_when_it_comes_back_is_open_again_with_its_new_reason(
    make_scene: MakeScene, journal_url: str
) -> None:
    scene = make_scene("strict", journal_url=journal_url)
    stage, bad = scene.stage, {"amount": "bad"}
    stage.start()
    (failed,) = scene.fail(bad, handler="strict")
    stage.workers[0].stop()
    scene.repair()
    stage.start()
    (refused,) = scene.fail(bad, handler="strict")
    assert _listed(scene) == {failed: "BANK_CLOSED", refused: "INVALID_MESSAGE"}
    for round_ in (2, 3):
        assert scene.said("redrive", "--all")["sent"] == 2
        _wait_for_generation(scene, round_, failed, refused)
        scene.box.closed([failed, refused])
        # Long before its new deadline.
        assert _listed(scene) == dict.fromkeys([failed, refused], "INVALID_MESSAGE")
        for one in (failed, refused):
            status = stage.final(one)
            assert (status.state, status.code) == (State.FAILED, "INVALID_MESSAGE")
            assert (status.resend, status.attempt, status.generation) == (False, round_, round_)
    assert scene.box.counted("strict") == {failed: 3, refused: 3}
    found = [headers(one) for one in scene.box.letters("strict")]
    said = {(one["DLQ_REQUEST_ID"], one["DLQ_ATTEMPTS"], one["DLQ_STAGE"]) for one in found}
    assert said == {
        *((failed, "1", "run"), (failed, "2", "receive"), (failed, "3", "receive")),
        *((refused, "0", "receive"), (refused, "2", "receive"), (refused, "3", "receive")),
    }
    assert len(stage.runs()) == 1


def _wait_for_generation(scene: Scene, number: int, *request_ids: str) -> None:
    def is_there() -> bool:
        rows = [scene.stage.row(one) for one in request_ids]
        return all(row is not None and row["generation"] == number for row in rows)

    eventually(is_there)


def test_what_comes_back_too_late_is_open_as_it_failed_and_can_be_sent_again(
    make_scene: MakeScene, journal_url: str
) -> None:
    scene = make_scene(journal_url=journal_url)
    stage = scene.stage
    stage.start()
    (failed,) = scene.fail({"amount": 5})
    stage.workers[0].stop()
    assert scene.said("redrive", failed, "--deadline-s", "0.1")["sent"] == 1
    assert stage.client.status(failed).state is State.PENDING
    eventually(lambda: _listed(scene) == {failed: "BANK_CLOSED"})
    scene.repair()
    stage.start()
    late = stage.final(failed)
    assert (late.state, late.code, late.resend) == (State.FAILED, "BANK_CLOSED", False)
    row = stage.row(failed)
    assert row is not None and (row["generation"], row["resend"]) == (1, 0)
    assert _listed(scene) == {failed: "BANK_CLOSED"}
    assert scene.said("redrive", failed)["sent"] == 1
    assert stage.final(failed).state is State.SUCCEEDED
    assert _listed(scene) == {}
    assert [run["generation"] for run in stage.runs(failed)] == [1, 2]
    assert scene.box.counted("repairable") == {failed: 1}


def test_its_client_waits_from_the_reopening_on(scene: Scene) -> None:
    (failed,) = scene.fail({"amount": 5})
    scene.stage.workers[0].stop()
    assert scene.said("redrive", failed)["sent"] == 1
    status = scene.stage.client.status(failed)
    assert (status.state, status.attempt, status.generation) == (State.PENDING, 2, 1)
    kept = scene.stage.client.store.kept_payload(failed)
    assert kept is not None and kept.value == SENT
    row = scene.stage.row(failed)
    assert row is not None
    assert (row["state"], row["resend"]) == ("FAILED", 1)
    assert row["published_at"] is not None and row["dead_letter_at"] is not None
    assert status.deadline_at == row["deadline_at"]
    # A second one leaves it alone.
    assert scene.said("redrive", failed, code=1)["refused"] == {"on_its_way": 1}
    scene.repair()
    scene.stage.start()
    assert scene.stage.final(failed).state is State.SUCCEEDED
    assert len(scene.stage.runs(failed)) == 2


def _told(scene: Scene, request_id: str) -> bool:
    row = scene.stage.row(request_id)
    return row is not None and row["published_at"] is not None


def test_a_rehearsal_changes_nothing(scene: Scene) -> None:
    failed = scene.fail({"amount": 1}, {"amount": 2})
    eventually(lambda: all(_told(scene, one) for one in failed))
    before = [dict(scene.stage.row(one) or {}) for one in failed]
    said = scene.said("redrive", "--all", "--dry-run")
    assert (said["state"], said["sent"], said["redrive_id"]) == ("rehearsed", 2, None)
    assert [dict(scene.stage.row(one) or {}) for one in failed] == before
    assert not scene.actions() and not scene.redrives()
    assert not scene.sent_back()


def test_a_later_success_of_the_same_key_is_named_before_a_letter_is_sent_back(
    scene: Scene,
) -> None:
    topic = scene.stage.topics["repairable"]
    (failed,) = scene.fail({"amount": "bad"}, key="k")
    (other,) = scene.fail({"amount": "bad"}, key="other")
    scene.repair()
    again = scene.stage.client.send({"amount": 5}, topic=topic, key="k").request_id
    assert scene.stage.final(again).state is State.SUCCEEDED
    said = scene.said("redrive", "--all", "--dry-run")
    assert (said["sent"], said["succeeded_later"]) == (2, {failed: [again]})
    assert said["succeeded_later_is_whole"]
    asked = scene.dlq("redrive", failed, other, code=1)
    assert f"  {failed}: {again}" in asked.stderr.splitlines()
    *letters, _ = map(json.loads, scene.dlq("list", "--json").stdout.splitlines())
    found = {one["request_id"]: one.get("succeeded_later") for one in letters}
    assert found == {failed: [again], other: None}
    # One that is named is asked about as well, but only where another has succeeded.
    alone = scene.dlq("redrive", failed, code=1)
    assert f"  {failed}: {again}" in alone.stderr.splitlines() and not scene.sent_back()
    assert f"  {failed}: {again}" in scene.dlq("show", failed).stdout.splitlines()
    assert json.loads(scene.dlq("show", failed, "--json").stdout)["succeeded_later"] == [again]
    assert scene.said("redrive", other)["sent"] == 1
    assert scene.said("redrive", failed, "--yes")["sent"] == 1


def test_of_two_failures_of_one_wish_the_later_one_is_named_before_they_are_sent_back(
    scene: Scene,
) -> None:
    # The client was told FAILED before it asked anew.
    first, second = (scene.fail({"amount": "bad"}, key="k")[0] for _ in range(2))
    said = scene.said("redrive", "--all", "--dry-run")
    assert (said["sent"], said["failed_later"]) == (2, {first: [second]})
    asked = scene.dlq("redrive", first, code=1)
    assert f"  {first}: {second}" in asked.stderr.splitlines() and not scene.sent_back()
    assert json.loads(scene.dlq("show", first, "--json").stdout)["failed_later"] == [second]
    scene.stage.workers[0].stop()
    assert scene.said("redrive", second)["sent"] == 1
    on_its_way = json.loads(scene.dlq("show", first, "--json").stdout)
    assert (on_its_way["failed_later"], on_its_way["undecided_later"]) == ([], [second])


def test_a_value_set_anew_is_a_new_request_and_the_old_one_is_closed(running: Scene) -> None:
    (failed,) = running.fail({"amount": "bad", "to": "Zoë"}, key="k")
    running.repair()
    said = running.said("redrive", failed, "--set", "amount=7")
    assert said["sent"] == 1
    (closed,) = running.actions(failed)
    assert closed["action"] == "discard"
    new = closed["reason"].removeprefix("replaced by ")
    assert said["replaced_by"] == {failed: new}
    ended = running.stage.final(new)
    assert (ended.state, ended.result, ended.attempt) == (State.SUCCEEDED, {"took": 7}, 1)
    assert [one["reason"] for one in running.actions(new)] == [f"replaces {failed}"]
    (run,) = running.stage.runs(new)
    assert run["headers"]["onceward-replaces"] == failed
    old = running.stage.row(failed)
    assert old is not None and (old["state"], old["resend"]) == ("FAILED", 0)
    assert running.stage.client.status(failed).state is State.FAILED
    for more in ((), ("--set", "amount=7")):
        assert running.said("redrive", failed, *more, code=1)["refused"] == {"discarded": 1}
    assert [len(running.stage.runs(one)) for one in (failed, new)] == [1, 1]


def test_what_cannot_be_set_is_left_and_named(running: Scene) -> None:
    (failed,) = running.fail({"amount": "bad"})
    said = running.said("redrive", failed, "--set", "card.number=7", code=1)
    assert said["refused"] == {"cannot_be_set": 1}
    assert not running.actions(failed)


def test_a_whole_new_value_is_a_new_request_and_its_value_is_kept_nowhere(
    running: Scene, tmp_path: Path
) -> None:
    failed, other = running.fail({"amount": "bad"}, {"amount": "bad", "card": "1"}, key="k")
    running.repair()
    slip = running.said("redrive", failed, "--value", '{"amount": }', code=1)
    assert slip["refused"] == {"cannot_be_set": 1} and not running.actions(failed)
    trial = running.said("redrive", failed, "--value", '{"amount": 7}', "--dry-run")
    assert trial["sent"] == 1 and not running.actions(failed)
    said = running.said("redrive", failed, "--value", '{"amount": 7, "card": "4111"}')
    (new,) = said["replaced_by"].values()
    ended = running.stage.final(new)
    assert (ended.state, ended.result, ended.attempt) == (State.SUCCEEDED, {"took": 7}, 1)
    assert [one["reason"] for one in running.actions(new)] == [f"replaces {failed}"]
    assert running.stage.client.status(failed).state is State.FAILED
    again = running.said("redrive", failed, "--value", '{"amount": 8}', code=1)
    assert again["refused"] == {"discarded": 1}
    value = tmp_path / "value"
    value.write_bytes(b'{"amount":9}')
    said = running.said("redrive", other, "--value-file", str(value))
    assert running.stage.final(said["replaced_by"][other]).result == {"took": 9}
    listed = running.dlq("redrives", "--json").stdout
    assert "4111" not in listed and '"setting": {"whole": true}' in listed
    assert running.dlq("redrive", other, "--value-file", "nowhere", code=2).stderr


def test_what_was_refused_under_its_coordinates_is_no_business_of_a_redrive(running: Scene) -> None:
    stage = running.stage
    (failed,) = running.fail({"amount": 1})
    taken = [("onceward-request-id", failed.encode())]
    other = stage.produce(b'{"amount":2}', headers=taken, handler="repairable").coordinates_id
    running.box.closed([other])
    said = running.said("redrive", other, code=1)
    assert said["refused"] == {"anothers_id": 1}
    assert running.said("redrive", other, "--set", "amount=3")["sent"] == 1


def test_the_reason_is_said_for_each_that_is_left(scene: Scene) -> None:
    done, gone, given_up = scene.fail({"amount": 1}, {"amount": 2}, {"amount": 3})
    scene.repair()
    assert scene.said("redrive", done)["sent"] == 1
    assert scene.stage.final(done).state is State.SUCCEEDED
    # The worker that ran it remembers how it ended, and would write the row again.
    scene.stage.workers[0].stop()
    scene.stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{gone}'")
    scene.stage.start()
    store = scene.stage.client.store
    store.redis.delete(store.request_key(gone))
    scene.said("discard", given_up, "--because", "a test")
    said = scene.said("redrive", "--all")
    assert said["refused"] == {"done": 1, "no_row": 1, "discarded": 1}
    assert scene.said("redrive", "nobody", code=1)["requests"] == {"nobody": "no_letter"}
    assert scene.said("redrive", gone, "--unknown")["sent"] == 1
    assert scene.stage.final(gone).state is State.SUCCEEDED


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--all", "--state", "open"),
        ("--all", "--set", "amount"),
        ("--all", "--value", "1"),
        ("a", "b", "--value", "1"),
        ("--all", "--rate", "0"),
    ],
)
def test_what_makes_no_sense_is_refused(running: Scene, arguments: tuple[str, ...]) -> None:
    done = running.dlq("redrive", *arguments, code=2)
    assert "Error" in done.stderr or "error" in done.stderr
