"""A redrive that died between its commit and its send: each command says so, and how it ends."""

import json
from typing import Any

import pytest

from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_plan import FieldValue, RedrivePlan
from consumer.dlq.redrive.redrive_session import begin
from consumer.journal.redrive.reopening import replacement_id
from feedback.errors import ExitCode
from tests.consumer.dlq.conftest import Dlq, Done
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.test_killed import PLACES, Killed

pytestmark = pytest.mark.waits

ONE = "request-00000007"
SET = FieldValue.parse("filling=x")


@pytest.fixture
def cut(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `cut(setting)`: a redrive of one letter, killed before it sends; returns its id."""
    monkeypatch.setattr("consumer.dlq.unfinished.is_gone", lambda owner: True)

    def killed(setting: FieldValue | None) -> str:
        where = PLACES["after the first reopening"]
        plan = RedrivePlan(LetterFilter(ids=frozenset([ONE])), setting=setting)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(where.owner, where.name, where.last)
            begin(planted.settings, plan, by="zoe", because=None, pace=RedrivePace())
        return planted.redrive().redrive_id

    return killed


def said(done: Done) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


@pytest.mark.parametrize("setting", [SET, None], ids=["set", "plain"])
def test_each_command_names_the_redrive_and_what_ends_it(
    planted: Planted, dlq: Dlq, cut: Any, setting: FieldValue | None
) -> None:
    config, redrive_id = planted.config, cut(setting)
    go_on = f"onceward-dlq redrive --config {config} --resume {redrive_id}"

    page = dlq(config, "list").stdout
    assert go_on in page and "1 unsent" in page
    *letters, last = dlq(config, "list", "--json", "--state", "unsent").stdout.splitlines()
    assert [json.loads(one)["request_id"] for one in letters] == [ONE]
    (unfinished,) = json.loads(last)["summary"]["unfinished_redrives"]
    assert (unfinished["redrive_id"], unfinished["unsent"]) == (redrive_id, 1)

    shown = dlq(config, "show", ONE).stdout.splitlines()
    assert go_on in shown and not [one for one in shown if "discard --undo" in one]
    assert said(dlq(config, "show", ONE, "--json"))["unsent_by"]["redrive_id"] == redrive_id
    if setting is not None:
        assert go_on in dlq(config, "show", replacement_id(redrive_id, ONE)).stdout.splitlines()
        undone = dlq(config, "discard", "--undo", ONE, "--because", "mine")
        assert undone.code == ExitCode.BAD_ANSWER and go_on in undone.stdout.splitlines()
    assert go_on in dlq(config, "redrives").stdout.splitlines()
    assert said(dlq(config, "redrives", "--json"))["unsent"] == 1
    cancelled = dlq(config, "redrive", "--cancel", redrive_id)
    assert cancelled.code == ExitCode.FINE and go_on in cancelled.stdout.splitlines()
    assert go_on in dlq(config, "show", ONE).stdout.splitlines()

    assert dlq(config, "redrive", "--resume", redrive_id).code == ExitCode.FINE
    assert planted.sent(redrive_id) == {ONE: 1}
    assert planted.redrive().state == "done"
    for command in (["list", "--all"], ["show", ONE], ["redrives"]):
        assert "--resume" not in dlq(config, *command).stdout, command
